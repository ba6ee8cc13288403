"""One module deletes and moves files of tables: read from the source itself."""

from __future__ import annotations

import ast

import pytest

from tests.test_architecture import MEMBERS, ROOT, module, sources

REMOVER = ROOT / "libs/iceberg/src/firnline_iceberg/removal/removal.py"
OWN_FILES = {  # deletions, moves and copies that are of no file of a table
    "firnline_deletes.deletes.delete_set": "a set in the worker's own directory",
    "firnline_deletes.deletes.positions": "a set in the worker's own directory",
    "firnline_iceberg.storage.file_io": "a FileIO's own, called by that module",
    "firnline_cli.commands.setup.jars": "a jar in the directory that its user names",
    "firnline_iceberg.storage.local_files": "the system's own, called by that module",
    "firnline_iceberg.storage.s3_client": "the store's own, called by that module",
    "firnline_iceberg.storage.s3_multipart_copy": "the store's own, called by that module",
    "firnline_deletes.deletes.build": "a temporary file",
    "firnline_deletes.files.hilbert_curve": "a run in the task's own directory",
    "firnline_cli.checks.catalog": "the doctor's own scratch table",
    "firnline_cli.running.local_run": "the directory of a run",
    "firnline_iceberg.storage.vended_file_io": "a FileIO's own, called by that module",
    "firnline_planner.drivers.kafka.local_store": "a key of the planner's store",
    "firnline_planner.drivers.faust.driver": "the planner's own directory",
    "firnline_planner.state.bucket_state": "a key of the planner's store",
    "firnline_worker.delete_sets.cache": "the worker's own directory",
    "firnline_worker.spark.jvm": "the worker's own directory",
    "firnline_worker.spark.python_archive": "the worker's own directory",
    "firnline_worker.spark.executor_delete_sets": "an executor's own directory",
    "firnline_worker.host.own_folder": "the worker's own directory",
    "firnline_console.read_model.redis": "keys in Redis",
}
DELETES = {
    *("delete", "delete_file", "deleteFile", "deleteFiles", "delete_files", "delete_dir"),
    *("delete_dir_contents", "deletePrefix", "deleteWith", "dropTable", "purge_table"),
    *("unlink", "rmtree", "rmdir", "removedirs", "delete_object", "delete_objects"),
}
MOVES = {
    *("move", "rename", "renames", "link", "symlink", "hardlink_to", "symlink_to", "copy2"),
    *("copy_file", "copyfile", "copytree", "copy_files", "copy_object", "upload_part_copy"),
    *("copy_part", "copy_in_parts", "rename_prefix", "mv"),
}
OF_A_STORE = {"delete_object", "delete_objects", "copy_object", "upload_part_copy", "copy_file"}
PRIMITIVES = {"remove_file", "move_file", "delete_objects", "copy_in_parts"}  # of `removal` alone


def deletions(source: str) -> set[str]:
    """Names of calls that may delete, move or overwrite a file; `os.remove`, but not a list's
    `remove`; `replace` of a path, but not of a text."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in OF_A_STORE:  # called by another
            found.add(node.attr)
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id in MOVES | PRIMITIVES:
            found.add(node.func.id)
        if isinstance(node.func, ast.Attribute):
            name, of = node.func.attr, node.func.value
            of_os = isinstance(of, ast.Name) and of.id in ("os", "shutil")
            is_path = name == "replace" and len(node.args) == 1 and not node.keywords and not of_os
            if name in DELETES | MOVES | PRIMITIVES or is_path:
                found.add(name)
            if of_os and name in ("remove", "replace"):
                found.add(name)
    return found


def test_one_module_deletes_and_moves_files_of_tables() -> None:
    """Others ask `firnline_iceberg.removal.removal`. Iceberg's expiry is its own."""
    members = [
        one
        for one in MEMBERS
        if one.parent.name in ("libs", "services") or one.name in ("cli", "standalone")
    ]
    found = {
        module(path): calls
        for member in members
        for path in sources(member)
        if path != REMOVER and (calls := deletions(path.read_text()))
    }
    assert not {name: calls for name, calls in found.items() if name not in OWN_FILES}
    assert OWN_FILES.keys() <= found.keys()
    known = {"delete", "move", "copy_file", *PRIMITIVES}
    assert deletions(REMOVER.read_text()) == known


@pytest.mark.parametrize(
    "source",
    [
        *("table.io.delete(path)", "os.remove(x)", "fs.delete_file(x)", "files.move(a, b)"),
        *("path.replace(other)", "os.rename(a, b)", "shutil.copyfile(a, b)", "move_file(a, b)"),
        *("bucket.delete_objects(keys)", "fs.copy_file(a, b)", "copy_in_parts(a, b, c)"),
    ],
)
def test_a_planted_deletion_is_caught(source: str) -> None:
    assert deletions(source)
