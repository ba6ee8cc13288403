"""All objects below a prefix, listed from several places at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import pytest
from firnline_iceberg.storage.file_io import make_file_io, s3_bucket
from firnline_iceberg.storage.s3_client import S3Bucket
from firnline_iceberg.storage.s3_listing import (
    FOLDER_PAGES,
    MAX_CUT,
    RANGES,
    ListPage,
    NotAPage,
    NotOrdered,
    all_below,
    listed_in_turn,
    page_of,
    plain_page,
)
from firnline_iceberg.storage.stored_files import ListedObject, StoredFiles

PER_PAGE = 10


@dataclass
class Store:
    """Pages as S3 makes them. `shuffled`: of a store that keeps no order."""

    keys: list[str]
    shuffled: bool = False
    asked: list[str] = field(default_factory=list)

    def page(
        self, prefix: str, after: str = "", token: str = "", by_folder: bool = False
    ) -> ListPage:
        self.asked.append("folders" if by_folder else "page")
        if token:
            assert token.startswith("t:"), "a key is no token"
        begin = token[2:] if token else after
        keys = self.keys[::-1] if self.shuffled else sorted(self.keys)
        at = keys.index(begin) + 1 if self.shuffled and begin else 0
        found = [one for one in keys[at:] if one.startswith(prefix)]
        if not self.shuffled:
            found = [one for one in found if one > begin]
        if by_folder:
            return self._by_folder(prefix, found)
        more = f"t:{found[PER_PAGE - 1]}" if len(found) > PER_PAGE else ""
        return ListPage(
            StoredFiles.from_files([ListedObject(one, 1, 0) for one in found[:PER_PAGE]]), [], more
        )

    def _by_folder(self, prefix: str, found: list[str]) -> ListPage:
        folders: dict[str, str] = {}
        for key in found:
            name, slash, _ = key[len(prefix) :].partition("/")
            if slash:
                folders[f"{prefix}{name}/"] = key
        some = list(folders)[:PER_PAGE]
        more = f"t:{folders[some[-1]]}" if len(folders) > PER_PAGE else ""
        return ListPage(StoredFiles.from_files([]), some, more)


def keys_of(store: Store, skipped: str = "") -> list[str]:
    return [one.place for page in all_below(store.page, "t/", skipped) for one in page]


LAYOUTS = {
    "empty": [],
    "small": ["t/metadata/1"],
    "one folder": [f"t/data/{n:03}" for n in range(95)],
    "partitions": [f"t/data/p={n % 30}/{n:04}" for n in range(400)],
    "many partitions": [f"t/data/p={n:03}/{n}" for n in range(200)],
    "hashed": [f"t/{n % 40:02}/{n}" for n in range(300)],
    "keys behind a folder's": ["t/data-1", "t/data0", *(f"t/data/{n:02}" for n in range(40))],
    "no ASCII": [f"t/{chr(0x20AC + n)}/{n}" for n in range(60)] + ["t/\U0001f600/1", "t/\uffee/1"],
    "marks": ["t/data/", *(f"t/data/{n:02}/" for n in range(20)), *map("t/z{}".format, range(30))],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_object_comes_once(layout: str) -> None:
    store = Store([*LAYOUTS[layout], "s/before", "u/behind"])
    found = [one for one in keys_of(store) if not one.endswith("/")]  # no mark of a folder
    assert sorted(found) == sorted(one for one in LAYOUTS[layout] if not one.endswith("/"))
    pages = len(LAYOUTS[layout]) // PER_PAGE + 1
    assert len(store.asked) <= pages + RANGES + MAX_CUT * FOLDER_PAGES


def test_a_small_table_is_one_request() -> None:
    store = Store([f"t/data/p={n}/1" for n in range(PER_PAGE)])
    keys_of(store)
    assert store.asked == ["page"]


def test_ranges_are_listed_side_by_side() -> None:
    """Of 100 pages no range has more than a fourth."""
    store = Store([f"t/data/p={n // 40:02}/{n:04}" for n in range(1_000)])
    begun: list[str] = []

    def noted(prefix: str, after: str = "", token: str = "", by_folder: bool = False) -> ListPage:
        if not token and not by_folder:
            begun.append(after)
        return store.page(prefix, after, token, by_folder)

    found = [one.place for page in all_below(noted, "t/") for one in page]
    assert sorted(found) == sorted(store.keys)
    starts = sorted(begun[1:])
    counts = [
        sum(a < key <= b for key in store.keys)
        for a, b in zip(starts, [*starts[1:], "u"], strict=True)
    ]
    assert len(starts) == RANGES
    assert max(counts) <= 250


def test_a_folder_that_is_skipped_takes_one_page() -> None:
    kept = [f"t/data/{n:03}" for n in range(30)] + [f"t/metadata/{n:03}" for n in range(30)]
    aside = [f"t/firnline-quarantine/1/data/{n:04}" for n in range(900)]
    store = Store([*kept, *aside])
    found = keys_of(store, "t/firnline-quarantine/")
    assert set(kept) <= set(found)
    assert len(store.asked) < 30


def test_a_store_without_order_is_told_and_listed_in_turn() -> None:
    store = Store([f"t/data/{n:03}" for n in range(95)], shuffled=True)
    with pytest.raises(NotOrdered):
        keys_of(store)
    found = [one.place for page in listed_in_turn(store.page, "t/") for one in page]
    assert sorted(found) == store.keys


def test_an_error_in_a_range_ends_the_listing() -> None:
    store = Store([f"t/data/p={n:02}/{n}" for n in range(60)])

    def failing(prefix: str, after: str = "", token: str = "", by_folder: bool = False) -> ListPage:
        if after > "t/data/p=30":
            raise OSError("SlowDown")
        return store.page(prefix, after, token, by_folder)

    with pytest.raises(OSError, match="SlowDown"):
        list(all_below(failing, "t/"))


def told(page: ListPage) -> tuple[list[ListedObject], list[str], str]:
    return list(page.objects), page.folders, page.token


def read(text: str) -> ListPage:
    return page_of(ElementTree.fromstring(f"<ListBucketResult>{text}</ListBucketResult>"), "")


def test_a_page_as_a_store_writes_it() -> None:
    one = "<Key>a%3Db+c</Key><LastModified>2026-01-02T03:04:05.678Z</LastModified><Size>7</Size>"
    found = read(
        f"<EncodingType>url</EncodingType><Contents>{one}</Contents>"
        "<NextContinuationToken>x</NextContinuationToken>"
        "<CommonPrefixes><Prefix>p%2F</Prefix></CommonPrefixes>"
    )
    assert told(found) == ([ListedObject("a=b c", 7, 1767323045678)], ["p/"], "x")
    assert read(f"<Contents>{one}</Contents>").objects.places == ["a%3Db+c"]


TWO_TIMES = "2026-01-02T03:04:05Z\n2026-01-02T03:04:06Z"


@pytest.mark.parametrize(
    "one",
    [
        "<Key>a</Key>",
        "<Key>a</Key><LastModified>x</LastModified>",
        "<Key>a</Key><LastModified>x</LastModified><Size>1</Size>",
        f"<Key>a</Key><LastModified>{TWO_TIMES}</LastModified><Size>1</Size>",
    ],
)
def test_an_object_without_size_or_time_is_no_object(one: str) -> None:
    with pytest.raises(NotAPage):
        read(f"<Contents>{one}</Contents>")


PAGE = (
    b'<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Contents><Key>t/a</Key>'
    b"<LastModified>2026-01-02T03:04:05.000Z</LastModified><Size>7</Size></Contents>"
    b"</ListBucketResult>"
)
TROUBLE = {
    "an error in an answer of 200": (200, b"<Error><Code>InternalError</Code></Error>"),
    "half a page": (200, PAGE[:-30]),
    "a busy store": (503, b"<Error><Code>SlowDown</Code></Error>"),
}


@contextmanager
def bucket_that_answers(answers: list[tuple[int, bytes]]) -> Iterator[S3Bucket]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = answers.pop(0)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    given = {
        "s3.endpoint": f"http://127.0.0.1:{server.server_port}",
        "s3.region": "us-east-1",
        "s3.access-key-id": "a",
        "s3.secret-access-key": "b",
    }
    found = s3_bucket(make_file_io(given, "s3://b/t"), "s3://b/t")
    assert found is not None
    yield found[0]
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("trouble", TROUBLE)
def test_a_page_that_did_not_come_is_asked_for_again(trouble: str) -> None:
    answers = [TROUBLE[trouble], (200, PAGE)]
    with bucket_that_answers(answers) as bucket:
        assert told(bucket.list_page("t/")) == ([ListedObject("t/a", 7, 1767323045000)], [], "")
    assert not answers


def test_who_may_not_list_is_told() -> None:
    with (
        bucket_that_answers([(403, b"<Error><Code>AccessDenied</Code></Error>")]) as bucket,
        pytest.raises(PermissionError, match="AccessDenied"),
    ):
        bucket.list_page("t/")


def test_a_page_without_a_time_is_an_error_of_the_storage() -> None:
    wrong = PAGE.replace(b"2026-01-02T03:04:05.000Z", b"")
    with bucket_that_answers([(200, wrong)]) as bucket, pytest.raises(OSError, match="listing"):
        bucket.list_page("t/")


def listing(keys: list[str], coded: bool = False, each: str = "") -> bytes:
    """As S3 writes it."""
    found = "".join(
        f"<Contents><Key>{escape(key)}</Key><LastModified>2026-01-02T03:04:{n % 60:02}.1Z"
        f'</LastModified><ETag>"x"</ETag><Size>{n}</Size>{each}</Contents>'
        for n, key in enumerate(keys)
    )
    coding = "<EncodingType>url</EncodingType>" if coded else ""
    return (
        f'<ListBucketResult xmlns="http://s3"><Name>b</Name>{coding}{found}'
        "<NextContinuationToken>a&amp;b=</NextContinuationToken></ListBucketResult>"
    ).encode()


ODD = [  # keys
    "a",
    "a&b",
    "a&amp;b",
    "a&copy;b",
    "a<b>",
    "ü€/\U0001f600",
    "a%3Db",
    "a+b c",
    "\"'",
    " a ",
    "",
]


@pytest.mark.parametrize("coded", [True, False])
@pytest.mark.parametrize("keys", [ODD, [], ["x"]])
def test_a_plain_page_is_read_as_any_reader_of_xml_reads_it(keys: list[str], coded: bool) -> None:
    body = listing(keys, coded)
    read = page_of(ElementTree.fromstring(body), "{http://s3}")
    plain = plain_page(body)
    assert plain is not None
    assert told(plain) == told(read)
    assert (len(read.objects), read.token) == (len(keys), "a&b=")


@pytest.mark.parametrize(
    "body",
    [
        listing(["a"])[:-5],
        listing(["a"]).replace(b"<Size>0</Size>", b""),
        listing(["a"]).replace(b"<Key>a<", b"<Key>a&#x0D;<"),
        listing(["a"]).replace(b"<Key>a<", b"<Key><![CDATA[a]]><"),
        listing(["a"]).replace(b"2026-01", b"someday"),
        listing(["a"], each="<Owner><Key>b</Key></Owner>"),
        listing(["a"]).replace(b"<Name>", b"<CommonPrefixes></CommonPrefixes><Name>"),
        b"<Error><Code>InternalError</Code></Error>",
    ],
)
def test_what_is_no_plain_page_is_left_to_a_reader_of_xml(body: bytes) -> None:
    assert plain_page(body) is None
