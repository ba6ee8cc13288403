"""Orphans on an S3 store: listed from several places at once, moved without marks of folders."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from firnline_domain.errors import StorageUnreachable
from firnline_iceberg.removal.moves import MAX_LEFT, Mover
from firnline_iceberg.removal.orphan_quarantine import move_in, release_files
from firnline_iceberg.removal.orphans import find_orphans
from firnline_iceberg.removal.removal import QUARANTINE, FileMove
from firnline_iceberg.storage import s3_client
from firnline_iceberg.storage.s3_client import S3Bucket, StoredObject
from firnline_iceberg.table.listing import Storage
from firnline_iceberg.table.retained_names import RetainedNames

from tests.integration.lake.test_orphans_by_inventory import LIMIT_MS, NOW_S, Site
from tests.kit.s3_server import BUCKET, Calls, S3Server

pytestmark = pytest.mark.stack
FOLDERS, EACH = 30, 40  # two pages
AT_MS = 5_000
ASIDE = f"{QUARANTINE}/{AT_MS}"


@pytest.fixture
def site(counted: S3Server) -> Site:
    return Site(counted, counted.root)  # versitygw lets nobody else copy in a bucket without an ACL


LEFT = "00000-{}-3f6f1f0a-1b1c-4e5d-8a2b-0123456789ab-00001.parquet"


def fill(site: Site, orphans: int, name: str = LEFT) -> list[str]:
    """Places of files that nobody names, evenly over the folders."""
    root = site.store.folder / BUCKET / site.key("data")
    found = []
    for number in range(orphans):
        path = root / f"{number % FOLDERS:08x}" / name.format(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"12345")
        os.utime(path, (NOW_S - 10 * 86_400,) * 2)
        found.append(f"data/{path.parent.name}/{path.name}")
    return found


def found(site: Site, storage: Storage) -> list[str]:
    table = site.table()
    told = find_orphans(table, RetainedNames(table), storage, LIMIT_MS, forced=True)
    return sorted(one.place for one in told.files)


def test_a_few_thousand_are_found_moved_and_deleted_in_few_calls(
    site: Site, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = fill(site, FOLDERS * EACH)
    table = site.table()
    names, storage = RetainedNames(table), Storage(table)
    before = calls.of(site.prefix)
    told = find_orphans(table, names, storage, LIMIT_MS, forced=True)
    assert sorted(one.place for one in told.files) == sorted(places)
    move_in(storage, told.files, AT_MS)
    assert found(site, storage) == []
    stored = {str(one.relative_to(root(site))) for one in root(site).rglob("*") if one.is_file()}
    assert {f"{QUARANTINE}/{AT_MS}/{one}" for one in places} <= stored
    assert release_files(table, names, storage, AT_MS + 1).deleted == len(places)
    assert not any(one.startswith(QUARANTINE) for one in map(str, root(site).rglob("*.parquet")))
    asked = calls.of(site.prefix) - before
    assert asked["CopyObject"] == len(places)
    assert asked["DeleteObjects"] == 4
    assert asked["ListObjectsV2"] <= 40
    assert asked["PutObject"] + asked["DeleteObject"] <= 4, asked  # the table's own


def root(site: Site) -> Path:
    return site.store.folder / BUCKET / site.key("")


def test_names_that_are_spelled_oddly_come_through(site: Site) -> None:
    names = ("a=b c+d-{}.parquet", "a%3Db-{}.parquet", "ü€-{}.parquet", "x&<y>'\"-{}.parquet")
    places = sorted(one for name in names for one in fill(site, 2, name))
    table = site.table()
    storage = Storage(table)
    theirs = set(places)
    move_in(storage, [one for one in storage.list_files("data") if one.place in theirs], AT_MS)
    assert not theirs & {one.place for one in storage.list_files("data")}
    aside = sorted(one.place for one in storage.list_files(f"{QUARANTINE}/{AT_MS}"))
    assert aside == [f"{QUARANTINE}/{AT_MS}/{one}" for one in places]
    Mover(storage).move_all(FileMove(one, one.split("/", 2)[2]) for one in aside)
    assert theirs <= {one.place for one in storage.list_files("data")}


def test_a_file_that_its_writer_clears_up_meanwhile_is_no_error(site: Site) -> None:
    places = fill(site, 3)
    table = site.table()
    storage = Storage(table)
    told = find_orphans(table, RetainedNames(table), storage, LIMIT_MS, forced=True)
    (root(site) / places[1]).unlink()
    move_in(storage, told.files, AT_MS)
    assert len(list(storage.list_files(QUARANTINE))) == 2


def test_what_cannot_be_removed_where_it_was_is_told(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(self: S3Bucket, keys: list[str]) -> None:
        raise PermissionError("AccessDenied")

    fill(site, 3)
    table = site.table()
    storage = Storage(table)
    told = find_orphans(table, RetainedNames(table), storage, LIMIT_MS, forced=True)
    monkeypatch.setattr(S3Bucket, "delete_objects", refused)
    with pytest.raises(StorageUnreachable, match="AccessDenied"):
        move_in(storage, told.files, AT_MS)
    assert len(found(site, storage)) == 3  # and found again


def test_a_store_that_knows_no_deletion_of_many_is_asked_for_each(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(self: S3Bucket, keys: list[str]) -> None:
        raise PermissionError("501")

    fill(site, 3)
    table = site.table()
    storage = Storage(table)
    told = find_orphans(table, RetainedNames(table), storage, LIMIT_MS, forced=True)
    monkeypatch.setattr(S3Bucket, "_remove_at_once", unknown)
    move_in(storage, told.files, AT_MS)
    assert found(site, storage) == []


def test_without_amazons_client_arrow_does_the_same(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a role is assumed."""
    places = fill(site, 40)
    monkeypatch.setattr(s3_client, "_OF_ARROW", ("s3.endpoint",))
    table = site.table()
    storage = Storage(table)
    assert found(site, storage) == sorted(places)
    told = find_orphans(table, RetainedNames(table), storage, LIMIT_MS, forced=True)
    move_in(storage, told.files, AT_MS)
    assert found(site, storage) == []
    assert release_files(table, RetainedNames(table), storage, AT_MS + 1).deleted == len(places)


LARGE = 11 << 20  # three parts, of which S3 asks that all but the last have 5 MiB
PART = 5 << 20


def large(site: Site, name: str) -> tuple[str, bytes]:
    """An object that is no page of zeros, with metadata of its own."""
    place, body = f"data/{name}", os.urandom(LARGE)
    bucket, prefix = Storage(site.table()).find_bucket()
    assert bucket is not None
    told = {"Metadata": {"who": "a writer"}}
    bucket._client.s3.put_object(Bucket=BUCKET, Key=f"{prefix}{place}", Body=body, **told)
    return place, body


def test_what_is_too_large_for_one_copy_is_copied_by_parts(site: Site, calls: Calls) -> None:
    place, body = large(site, "large.parquet")
    small = fill(site, 1)[0]
    storage = Storage(site.table())
    moves = [
        FileMove(place, f"{ASIDE}/data/large.parquet", LARGE),
        FileMove(small, f"{ASIDE}/{small}", 5),
    ]
    before = calls.of(site.prefix)
    moved = Mover(storage, LARGE - 1, PART).move_all(moves)
    assert (moved.files, moved.bytes, moved.left) == (2, LARGE + 5, {})
    assert not storage.has_file(place)
    assert (root(site) / f"{ASIDE}/data/large.parquet").read_bytes() == body
    bucket, prefix = storage.find_bucket()
    assert bucket is not None
    copy = bucket.head_object(f"{prefix}{ASIDE}/data/large.parquet")
    assert copy is not None
    assert copy.told["Metadata"] == {"who": "a writer"}
    asked = calls.of(site.prefix) - before
    assert (asked["UploadPartCopy"], asked["CopyObject"]) == (3, 1)
    assert site.store.uploads() == []


def test_one_that_cannot_be_copied_stays_and_the_others_go(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store refuses a copy whose object was written again since it was looked at."""
    place, _ = large(site, "large.parquet")
    small = fill(site, 3)
    copied, another = S3Bucket.copy_part, bytes(LARGE)

    def overtaken(self: S3Bucket, source: StoredObject, *more: Any) -> str:
        if (root(site) / place).read_bytes() != another:
            site.store.put(site.key(place), another)
        return copied(self, source, *more)

    monkeypatch.setattr(S3Bucket, "copy_part", overtaken)
    storage = Storage(site.table())
    moves = [FileMove(place, f"{ASIDE}/{place}", LARGE)]
    moves += [FileMove(one, f"{ASIDE}/{one}", 5) for one in small]
    moved = Mover(storage, LARGE - 1, PART).move_all(moves)
    assert (moved.files, [*moved.left]) == (3, [place])
    assert (root(site) / place).read_bytes() == another
    assert not storage.has_file(f"{ASIDE}/{place}")
    assert site.store.uploads() == []


def test_a_large_one_that_is_gone_is_no_error(site: Site) -> None:
    moved = Mover(Storage(site.table()), 1, PART).move_all(
        [FileMove("data/none", f"{ASIDE}/data/none", LARGE)]
    )
    assert (moved.files, moved.left) == (0, {})


def test_more_than_a_hundred_that_stay_are_the_stores_fault(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(self: Mover, move: FileMove) -> bool:
        raise OSError("no")

    monkeypatch.setattr(Mover, "_copy_and_delete", refused)
    mover = Mover(Storage(site.table()))
    some = [FileMove(one, f"{ASIDE}/{one}") for one in fill(site, MAX_LEFT)]
    assert len(mover.move_all(some).left) == MAX_LEFT
    with pytest.raises(StorageUnreachable, match="no"):
        mover.move_all([*some, FileMove("data/x", f"{ASIDE}/data/x")])
