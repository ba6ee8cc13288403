"""On an S3 store, too, the object that is read and deleted is the one that is recorded, or none."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest
from botocore.exceptions import ClientError
from firnline_domain.errors import TaskRefused
from firnline_iceberg.removal.removal import ExpiredRemoval
from firnline_iceberg.storage import s3_client
from firnline_iceberg.storage.file_io import s3_bucket
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from libs.iceberg.tests.storage.test_paths import ODD, readings
from tests.integration.lake.test_orphans_by_inventory import Site
from tests.kit.s3_server import BUCKET, S3Server

pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
def site(store: S3Server) -> Site:
    return Site(store)


def put_where_others_look(site: Site, folder: str, path: str) -> set[str]:
    """Keys of objects, each of which says where it is; the store refuses some."""
    bucket, _ = s3_bucket(site.made.io, site.location) or (None, "")
    assert bucket is not None
    client, found = bucket._client.patient_client, set[str]()
    for key in sorted(f"{folder}/{one}" for one in readings(path)):
        try:
            client.put_object(Bucket=BUCKET, Key=key, Body=key.encode())
            found.add(key)
        except (ClientError, ValueError):
            continue
    return {one for one in found if read_exactly(client, one) == one.encode()}


def read_exactly(client: object, key: str) -> bytes | None:
    try:
        body: bytes = client.get_object(Bucket=BUCKET, Key=key)["Body"].read()  # type: ignore[attr-defined]
    except ClientError:
        return None
    return body


def by_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a role is assumed."""
    monkeypatch.setattr(s3_client, "_OF_ARROW", ("s3.endpoint",))


@pytest.mark.parametrize("by", [by_arrow, lambda _: None], ids=["arrow", "amazon"])
def test_the_object_is_the_one_that_is_recorded_or_nothing_happens(
    site: Site, by: Callable[[pytest.MonkeyPatch], None]
) -> None:
    bucket, _ = s3_bucket(site.made.io, site.location) or (None, "")
    assert bucket is not None
    client = bucket._client.patient_client
    table = site.table()

    @settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(path=ODD, scheme=st.sampled_from(["s3", "s3a", "S3"]))
    @example(path="\xa0/a", scheme="s3")  # the folder's path ends with a blank
    def holds(path: str, scheme: str) -> None:
        folder = uuid.uuid4().hex
        there = put_where_others_look(site, folder, path)
        exact, recorded = f"{folder}/{path}", f"{scheme}://{BUCKET}/{folder}/{path}"
        with pytest.MonkeyPatch.context() as patch:
            by(patch)
            try:
                found = table.io.new_input(recorded).open().read()
                assert found == exact.encode()
            except (TaskRefused, OSError):
                pass
            removal = ExpiredRemoval(table, outside=lambda _: "")
            removal.remove_allowed([recorded])
        gone = {one for one in there if read_exactly(client, one) is None}
        assert gone == (there & {exact} if recorded not in removal.left else set())

    holds()
