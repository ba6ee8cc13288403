"""Tags and branches go by the owner's rules, and with the snapshots what only these needed."""

from __future__ import annotations

import time
from typing import Any

import pytest
from firnline_iceberg.expiry import refs as old_refs
from firnline_standalone.previews import preview
from firnline_worker.table_actions import expire_snapshots as expiry
from firnline_worker.table_actions.expire_snapshots import Expirer

from tests.integration.worker.lab import Lab
from tests.kit.expiries import expire

pytestmark = [pytest.mark.spark, pytest.mark.stack]
HOUR_MS = 3_600_000


@pytest.fixture
def expirer(tables: Any, java: Any) -> Expirer:
    clocks = {"the storage": later_ms()}
    return Expirer(tables, java, lambda uuid: (), "w1", later_ms, ask=lambda _: clocks)


def later_ms() -> int:
    return int(time.time() * 1000) + 3 * HOUR_MS


def order(lab: Lab, **more: Any) -> Any:
    return expire("e1", lab.name, later_ms() - HOUR_MS, later_ms(), agreed=True, **more)


def refs(lab: Lab) -> set[str]:
    return {*lab.table().metadata.refs}


def tagged(lab: Lab, **properties: str) -> None:
    """Two snapshots, tags of the first, a branch with a commit of its own."""
    lab.create("id BIGINT", **properties)
    lab.insert("(1)")
    for name in ("daily-1", "daily-2", "release-1"):
        lab.sql(f"ALTER TABLE {{t}} CREATE TAG `{name}`")
    lab.sql("ALTER TABLE {t} CREATE BRANCH audit")
    lab.sql("INSERT OVERWRITE {t} SELECT 9")


def test_what_no_rule_names_stays(lab, expirer):
    tagged(lab)
    expirer.expire(order(lab))
    assert refs(lab) == {"main", "audit", "daily-1", "daily-2", "release-1"}


def test_tags_and_branches_go_and_then_their_snapshots_and_files(lab, expirer, in_thread):
    rules = {"firnline.expire.tags": "daily-* 1h; release-* never"}
    tagged(lab, **rules, **{"firnline.expire.branches": "* 2h"})
    before, stored = lab.table(), lab.stored()
    seen = preview(expirer.tables, order(lab), later_ms())
    assert set(seen.refs) == {"audit", "daily-1", "daily-2"}
    result = in_thread(expirer.expire, order(lab))
    assert (result.numbers, result.expired) == ({"tags_removed": 2, "branches_removed": 1}, 0)
    assert refs(lab) == {"main", "release-1"}
    assert stored <= lab.stored()
    lab.sql("ALTER TABLE {t} SET TBLPROPERTIES ('firnline.expire.tags' = '* 2h')")
    assert preview(expirer.tables, order(lab), later_ms()).snapshots == 1
    result = expirer.expire(order(lab))
    assert (result.numbers, result.expired) == ({"tags_removed": 1}, 1)
    assert len(stored - lab.stored()) == result.deleted_files >= 2
    assert (refs(lab), lab.rows()) == ({"main"}, [(9,)])
    assert before.head("main") == lab.table().head("main")


def test_a_branch_that_gets_a_commit_meanwhile_stays_and_the_commit_too(lab, expirer, monkeypatch):
    tagged(lab, **{"firnline.expire.branches": "audit 2h"})
    real = old_refs.remove_refs

    def late(tables: Any, seen: Any, names: Any) -> bool:
        lab.sql("INSERT INTO {t}.branch_audit VALUES (7)")
        return real(tables, seen, names)

    monkeypatch.setattr(expiry, "remove_refs", late)
    assert expirer.expire(order(lab)).numbers == {}
    assert lab.rows(ref="audit") == [(1,), (7,)]


def test_a_rule_that_cannot_be_read_stops_the_expiry_of_the_table(lab, expirer):
    tagged(lab, **{"firnline.expire.tags": "daily-* thirty days"})
    assert expirer.expire(order(lab)).refused_reason == "unreadable_rules"
    assert preview(expirer.tables, order(lab), later_ms()).refused == "unreadable_rules"
    assert len(refs(lab)) == 5


def evolved(lab: Lab) -> None:
    lab.create("id BIGINT, old STRING")
    lab.insert("(1, 'x')")
    lab.sql("ALTER TABLE {t} DROP COLUMN old")
    lab.sql("ALTER TABLE {t} ADD PARTITION FIELD bucket(2, id)")
    lab.sql("ALTER TABLE {t} DROP PARTITION FIELD bucket(2, id)")
    lab.sql("INSERT OVERWRITE {t} SELECT 9")


def forms(lab: Lab) -> tuple[int, int]:
    metadata = lab.table().metadata
    return len(metadata.schemas), len(metadata.partition_specs)


def test_schemas_and_specs_that_no_snapshot_needs_go(lab, expirer):
    evolved(lab)
    assert forms(lab) == (2, 2)
    result = expirer.expire(order(lab))
    assert result.expired == 1
    assert result.numbers == {"schemas_removed": 1, "specs_removed": 1}
    assert forms(lab) == (1, 1)
    assert lab.rows() == [(9,)]


def test_a_dropped_column_that_may_be_the_key_of_a_delete_stays(lab, expirer):
    """An equality delete that outlives its column is read by the schema that still has it."""
    lab.create("id BIGINT, old STRING")
    lab.insert("(1, 'x'), (2, 'y')")
    lab.equality_delete(["old"], "('x')")
    lab.sql("ALTER TABLE {t} DROP COLUMN old")
    lab.insert("(3)")
    rows = lab.rows()
    assert expirer.expire(order(lab)).expired == 2
    assert (forms(lab)[0], lab.rows()) == (2, rows)
