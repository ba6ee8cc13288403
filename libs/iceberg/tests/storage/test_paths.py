"""A recorded path is read, written and deleted exactly where it says, or not at all."""

from __future__ import annotations

import tempfile
from pathlib import Path
from unicodedata import normalize
from urllib.parse import unquote, urlparse

import pytest
from firnline_iceberg.storage.file_io import file_system, make_file_io
from firnline_iceberg.storage.paths import UnclearPath, parse_address, resolve_file
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.io.fsspec import FsspecFileIO

PIECES = (
    *(
        "a",
        "B",
        "#",
        "?",
        ";",
        " ",
        "%",
        "%23",
        "%2F",
        "%2e",
        "..",
        ".",
        "/",
        "//",
        "\\",
        "\t",
        "\n",
    ),
    *("=", "+", "&", ":", "@", "é", "e\u0301", "ß", "\u00a0", "\u2028", "\x7f", "*", "[", "{", "'"),
    *('"', "~", "|"),
)
ODD = st.lists(st.sampled_from(PIECES), min_size=1, max_size=7).map("".join)


def readings(path: str) -> set[str]:
    """Where libraries would look, below a folder in which the path is."""
    parts = urlparse(f"file:///{path}").path[1:]
    found = {path, parts, unquote(path), path.strip(), path.replace("\\", "/"), path.rstrip("/")}
    found |= {path.split(one)[0] for one in "#?;"} | {path.replace("//", "/").replace("/./", "/")}
    return found | {normalize("NFC", path), normalize("NFD", path), path.lower()}


def put_where_others_look(folder: Path, path: str) -> dict[Path, bytes]:
    """A file at each place, which says where it is."""
    found = dict[Path, bytes]()
    for one in sorted(readings(path)):
        place = Path(f"{folder}/{one}")
        if "\0" in one or ".." in place.parts or one.endswith("/") or not one.strip("/"):
            continue
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            if not place.is_dir():
                place.write_bytes(str(place).encode())
                found[place] = str(place).encode()
        except (OSError, ValueError):  # it would lie below another of them
            continue
    return found


@settings(max_examples=150, deadline=None)
@given(path=ODD, scheme=st.sampled_from(["file://", "file:", "", "FILE://"]))
def test_the_file_is_the_one_that_is_recorded_or_nothing_happens(path: str, scheme: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        there = put_where_others_look(Path(folder), path)
        recorded = f"{scheme}{folder}/{path}"
        io, exact = make_file_io({}, folder), Path(f"{folder}/{path}")
        try:
            found = io.new_input(recorded).open().read()
        except (UnclearPath, FileNotFoundError):
            found = None
        assert found is None or found == there[exact]
        try:
            io.delete(recorded)
            gone = {exact}
        except (UnclearPath, FileNotFoundError):
            gone = set()
        assert {one for one in there if not one.exists()} == gone


@given(path=ODD)
def test_of_a_bucket_the_key_is_what_stands_there(path: str) -> None:
    try:
        found = resolve_file(f"S3A://Bucket/{path}")
    except UnclearPath:
        return
    assert (found.scheme, found.authority, found.key) == ("s3", "Bucket", path)
    assert urlparse(f"s3://Bucket/{path}").path == f"/{path}"  # as others read it


@pytest.mark.parametrize(
    "path",
    [
        "s3://b/t/x#y", "s3://b/t/x?y", "s3://b/t/x;y", "s3://b/t//x", "s3://b/t/x/", "//host/t/x",
        "s3://b/t/../x", "s3://b/t/%2e%2e/x", "s3://b/t\\x", "s3://b/t/\tx", " s3://b/t/x", "t/x",
        "file:t/x", "file://host/t/x", "", "/", "s3://b",
    ],
)  # fmt: skip
def test_a_path_that_is_read_in_two_ways_is_refused_by_its_name(path: str) -> None:
    with pytest.raises(UnclearPath, match="path ") as refused:
        make_file_io({}, "/").new_input(path)
    assert refused.value.reason == "unclear_path"
    assert repr(path) in str(refused.value)


def test_a_class_of_the_connections_choice_is_given_no_unclear_path(tmp_path: Path) -> None:
    """fsspec cuts at `#`, too."""
    (tmp_path / "live").write_bytes(b"x")
    named = f"{FsspecFileIO.__module__}.{FsspecFileIO.__name__}"
    io = make_file_io({"py-io-impl": named}, str(tmp_path))
    assert io.new_input(f"file://{tmp_path}/live").open().read() == b"x"
    for act in (io.new_input, io.new_output, io.delete):
        with pytest.raises(UnclearPath):
            act(f"file://{tmp_path}/live#1")
    assert (tmp_path / "live").exists()


def test_a_folder_may_end_with_a_slash() -> None:
    assert file_system(make_file_io({}, "/"), "file:///tmp/")[1] == "/tmp"
    assert parse_address("s3://b/t/") == parse_address("s3a://b/t")
