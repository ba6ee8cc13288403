"""Old metadata files go with an expiry, where the table's owner has said how many are to stay."""

from __future__ import annotations

import json
import time
import uuid
from pathlib import Path
from typing import Any

import pytest
from firnline_iceberg.expiry import metadata_files
from firnline_iceberg.storage.paths import file_name
from firnline_worker.table_actions.expire_snapshots import Expirer

from tests.integration.worker.lab import Lab
from tests.kit.expiries import expire

pytestmark = [pytest.mark.spark, pytest.mark.stack]
KEPT = "firnline.metadata.previous-versions-max"


@pytest.fixture
def expirer(tables: Any, java: Any) -> Expirer:
    return Expirer(tables, java, lambda uuid: (), "w1", lambda: int(time.time() * 1000))


def expired(lab: Lab, expirer: Expirer) -> dict[str, float]:
    now = int(time.time() * 1000)
    result = expirer.expire(expire("e1", lab.name, now, now, agreed=True))
    assert result.refused_reason is None
    return dict(result.numbers)


def folder(lab: Lab) -> Path:
    return Path(lab.table().metadata_location.removeprefix("file:")).parent


def files(lab: Lab) -> set[str]:
    return {path.name for path in folder(lab).glob("*.metadata.json")}


def logged(lab: Lab) -> set[str]:
    table = lab.table()
    log = [one.metadata_file for one in table.metadata.metadata_log]
    return {file_name(path) for path in (table.metadata_location, *log)}


def grown(lab: Lab, commits: int = 6, **properties: str) -> None:
    """Its log names two, and nobody has removed the others."""
    lab.create("id BIGINT", **{"write.metadata.previous-versions-max": "2", **properties})
    for number in range(commits):
        lab.insert(f"({number})")


def test_without_a_word_of_the_owner_all_stay(lab: Lab, expirer: Expirer) -> None:
    grown(lab)
    before = files(lab)
    assert "metadata_files_removed" not in expired(lab, expirer)
    assert before <= files(lab)
    assert len(logged(lab)) == 3


def test_what_the_log_does_not_name_goes_and_the_catalog_keeps_few(
    lab: Lab, expirer: Expirer
) -> None:
    grown(lab, **{KEPT: "2"})
    snapshots = len(lab.table().snapshots)
    numbers = expired(lab, expirer)
    assert snapshots > 1
    assert numbers["metadata_files_removed"] == 5  # of 8, of which three are named
    assert files(lab) == logged(lab)
    for number in range(4):
        lab.insert(f"({number})")
    assert files(lab) == logged(lab)
    assert len(logged(lab)) == 3
    assert "metadata_files_removed" not in expired(lab, expirer)  # nothing is left to be looked for
    assert len(lab.rows()) == 10


def test_files_of_another_table_and_of_commits_that_are_under_way_stay(
    lab: Lab, expirer: Expirer
) -> None:
    grown(lab, **{KEPT: "2"})
    others = json.loads((folder(lab) / min(files(lab))).read_text())
    others["table-uuid"] = str(uuid.uuid4())
    stranger = folder(lab) / f"00001-{uuid.uuid4()}.metadata.json"
    stranger.write_text(json.dumps(others))
    waiting = folder(lab) / f"00099-{uuid.uuid4()}.metadata.json"
    waiting.write_text(json.dumps({**others, "table-uuid": lab.name.uuid}))
    odd = folder(lab) / "v1.metadata.json"
    odd.write_text(waiting.read_text())
    expired(lab, expirer)
    assert files(lab) == logged(lab) | {stranger.name, waiting.name, odd.name}


def test_a_folder_is_looked_through_once_a_day(lab: Lab, expirer: Expirer) -> None:
    grown(lab, **{KEPT: "2"})
    expired(lab, expirer)
    left = folder(lab) / f"00001-{uuid.uuid4()}.metadata.json"
    left.write_text((folder(lab) / max(files(lab))).read_text())
    lab.insert("(1)")
    expired(lab, expirer)
    assert left.exists()
    expirer.looked.at_ms[lab.name.key] -= 24 * 3_600_000
    assert expired(lab, expirer)["metadata_files_removed"] == 1
    assert not left.exists()


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("00007-0d5f8c2e-53ff-4d9e-8f0a-2f1f0a8f3d11.metadata.json", 7),
        ("00012-0d5f8c2e-53ff-4d9e-8f0a-2f1f0a8f3d11.gz.metadata.json", 12),
        ("123456-0d5f8c2e-53ff-4d9e-8f0a-2f1f0a8f3d11.metadata.json.gz", 123456),
        ("v7.metadata.json", None),  # a Hadoop catalog's, which has a log of its own
        ("00007-left.metadata.json", None),
        ("00007-0d5f8c2e-53ff-4d9e-8f0a-2f1f0a8f3d11-m0.avro", None),
    ],
)
def test_versions_are_in_the_names(name: str, number: int | None) -> None:
    assert metadata_files.metadata_version(name) == number
