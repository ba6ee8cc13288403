"""Every module that reads something from outside is a row of the security model, and every
row of that page names a test that exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/contribute/security-model.md"
DECODERS = {
    # How text and bytes become values: each call of one of these reads something from outside.
    "json.loads", "json.load", "tomllib.load", "tomllib.loads", "struct.unpack",
    "struct.unpack_from", "struct.iter_unpack", "zlib.decompress", "zlib.decompressobj",
    "gzip.open", "gzip.decompress", "fastavro.reader", "fastavro.schemaless_reader",
    "fastavro.block_reader", "schemaless_reader", "block_reader", "pq.ParquetFile",
    "pq.read_metadata", "pq.read_table", "pq.read_schema", "urlopen", "int.from_bytes",
    "urllib.request.urlopen", "RecordCodec", "KafkaInbox", "codec.decode", "unpackb",
    "PuffinFile", "AvroFile", "ElementTree.fromstring",
}  # fmt: skip
FIELDS = {
    # What Iceberg's metadata and manifests hold: whoever asks for one believes its writer.
    "properties", "summary", "lower_bounds", "upper_bounds", "file_path", "record_count",
    "file_size_in_bytes", "key_metadata", "table_uuid", "metadata_log", "snapshot_log",
}  # fmt: skip


def dotted(node: ast.expr) -> str:
    """Return `a.b` of a name or of an attribute of a name, else the last attribute alone."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = node.value.id + "." if isinstance(node.value, ast.Name) else ""
        return owner + node.attr
    return ""


def find_readers(source: str) -> set[str]:
    """Find the decoders that a module calls, and the fields of metadata that it asks for."""
    readers = set[str]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and dotted(node.func) in DECODERS:
            readers.add(dotted(node.func))
        elif isinstance(node, ast.Attribute) and node.attr in FIELDS:
            readers.add(node.attr)
    return readers


def find_modules() -> Iterator[tuple[str, set[str]]]:
    for path in sorted([*ROOT.glob("schemas/src/**/*.py"), *ROOT.glob("*/*/src/**/*.py")]):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if (parts[0] != "infra" or parts[1] == "cli") and (
            readers := find_readers(path.read_text())
        ):
            yield ".".join(parts[parts.index("src") + 1 :]).removesuffix(".__init__"), readers


def read_inputs() -> str:
    return PAGE.read_text().partition("## Inputs from outside")[2]


def read_page() -> set[str]:
    """Return the modules that the page names as readers."""
    return set(re.findall(r"`(firnline_[a-z]+(?:\.[a-z0-9_]+)+)`", read_inputs()))


def test_a_reader_of_outside_data_is_on_the_page() -> None:
    """Give each module that is not a row: behind it stands what it reads."""
    page = read_page()
    assert {name: readers for name, readers in find_modules() if name not in page} == {}


def test_the_page_names_modules_that_exist() -> None:
    named = {name.replace(".", "/") for name in read_page()}
    sources = [*ROOT.glob("schemas/src/**/*.py"), *ROOT.glob("*/*/src/**/*.py")]
    known = {path.as_posix().rpartition("/src/")[2].removesuffix(".py") for path in sources}
    assert named - known == set()


def test_every_row_has_a_range_and_a_test() -> None:
    rows = [line.split(" | ") for line in read_inputs().splitlines() if line.startswith("| ")]
    rows = [row for row in rows if row[0] not in ("| input", "| ---")]
    assert len(rows) > 25
    assert [row for row in rows if len(row) != 5 or "test_" not in row[4] or not row[2]] == []


@pytest.mark.parametrize(
    "source",
    [
        "import json\nvalue = json.loads(text)",
        "size = entry.data_file.file_size_in_bytes",
        "from pyarrow import parquet as pq\nfooter = pq.read_metadata(path)",
    ],
)
def test_a_new_reader_is_seen(source: str) -> None:
    assert find_readers(source)
