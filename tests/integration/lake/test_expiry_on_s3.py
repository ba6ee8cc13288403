"""What expired snapshots leave on an S3 store goes by a thousand a request."""

from __future__ import annotations

import pyarrow as pa
import pytest
from firnline_domain.errors import StorageUnreachable
from firnline_iceberg.expiry import file_cleanup
from firnline_iceberg.expiry.file_cleanup import ExpiredLists, named_by_snapshots, remove_unneeded
from firnline_iceberg.storage.s3_client import S3Bucket
from firnline_iceberg.table.loaded_table import LoadedTable

from tests.integration.lake.test_orphans_by_inventory import Site
from tests.kit.s3_server import BUCKET, Calls, S3Server

pytestmark = pytest.mark.stack
COMMITS = 12


@pytest.fixture
def site(counted: S3Server) -> Site:
    """Of which each commit but the first replaces the one before."""
    made = Site(counted)
    for number in range(COMMITS):
        made.made.overwrite(pa.table({"id": pa.array([number], pa.int64())}))
    return made


def stored(site: Site) -> set[str]:
    """But metadata files."""
    root = site.store.folder / BUCKET / site.prefix
    files = (one for one in root.rglob("*") if one.is_file())
    return {one.name for one in files if not one.name.endswith(".metadata.json")}


def expired(site: Site) -> tuple[LoadedTable, ExpiredLists]:
    before = site.table()
    head = site.made.metadata.current_snapshot_id
    gone = [one.snapshot_id for one in before.snapshots if one.snapshot_id != head]
    site.made.maintenance.expire_snapshots().by_ids(gone).commit()
    return site.table(), named_by_snapshots(before, gone)


def needed(site: Site) -> set[str]:
    snapshot = site.made.current_snapshot()
    assert snapshot is not None
    found = {snapshot.manifest_list}
    for manifest in snapshot.manifests(site.made.io):
        found.add(manifest.manifest_path)
        entries = manifest.fetch_manifest_entry(site.made.io, discard_deleted=True)
        found |= {entry.data_file.file_path for entry in entries}
    return {path.rpartition("/")[2] for path in found}


def test_all_of_it_goes_in_four_requests(site: Site, calls: Calls) -> None:
    table, lists = expired(site)
    had, before = stored(site), calls.of(site.prefix)
    cleaned = remove_unneeded(table, lists)
    assert cleaned.content >= COMMITS
    assert needed(site) <= stored(site)
    assert cleaned.files == len(had - stored(site))
    asked = calls.of(site.prefix) - before
    assert asked["DeleteObjects"] <= 4, asked  # content, statistics, manifests, lists
    assert asked["DeleteObject"] + asked["PutObject"] == 0, asked


def test_a_store_that_knows_no_such_request_is_asked_for_each(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(_: S3Bucket, keys: list[str]) -> None:
        raise PermissionError("501 NotImplemented")

    monkeypatch.setattr(S3Bucket, "delete_objects", unknown)
    table, lists = expired(site)
    had = stored(site)
    cleaned = remove_unneeded(table, lists)
    assert cleaned.files == len(had - stored(site))
    assert cleaned.content >= COMMITS


def test_a_store_that_refuses_is_said_so(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_cleanup, "WAIT_S", 0.0)
    table, lists = expired(site)
    had = stored(site)
    site.store.allow("s3:GetObject", "s3:PutObject", "s3:ListBucket")
    try:
        with pytest.raises(StorageUnreachable, match="cannot remove s3://"):
            remove_unneeded(table, lists)
    finally:
        site.store.allow("s3:*")
    assert stored(site) == had
    assert remove_unneeded(table, lists).files == len(had - stored(site))
