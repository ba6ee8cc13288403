"""The head that a table had at the end of a period gets a tag, once."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from firnline_domain.base.times import DAY_MS, HOUR_MS
from firnline_domain.errors import TaskRefused
from firnline_domain.policy.table_action.create_tags import TagCreation, TagReason
from firnline_domain.records.orders import TableOrder
from firnline_standalone.previews import preview
from firnline_worker.table_actions.create_tags import TagCreator
from firnline_worker.table_actions.expire_snapshots import Expirer

from tests.integration.worker.lab import Lab, now_ms
from tests.kit.expiries import expire

pytestmark = [pytest.mark.spark, pytest.mark.stack]
DAILY = {"firnline.tags.create": "daily-{date}"}


def day(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("daily-%Y-%m-%d")


def creator(tables: Any, at_ms: int) -> TagCreator:
    return TagCreator(tables, "w1", lambda: at_ms, lambda _: {"the storage": at_ms})


def order(lab: Lab, at_ms: int) -> TableOrder:
    name, task = TagCreation.name, f"{lab.namespace}-{at_ms}"
    return TableOrder(
        task, lab.name, name, TagReason.PERIOD_ENDED, 1, 1, at_ms, at_ms + HOUR_MS, {}
    )


def refs(lab: Lab) -> set[str]:
    return {*lab.table().metadata.refs}


def tagged_rows(lab: Lab, tag: str) -> list[int]:
    found = lab.sql(f"SELECT id FROM {{t}} VERSION AS OF '{tag}'").collect()
    return sorted(row[0] for row in found)


def test_tomorrow_today_has_its_last_state_once_and_for_all(lab: Lab, tables: Any) -> None:
    lab.create("id BIGINT", **DAILY)
    for one in (1, 2):
        lab.insert(f"({one})")
    today, tomorrow = day(now := now_ms()), now + DAY_MS
    seen = preview(tables, order(lab, tomorrow), tomorrow)
    assert today in seen.says
    assert refs(lab) == {"main"}
    made = creator(tables, tomorrow).create(order(lab, tomorrow))
    assert made.numbers == {"tags_created": 1}
    assert refs(lab) == {"main", today}
    lab.insert("(3)")
    assert tagged_rows(lab, today) == [1, 2]
    with pytest.raises(TaskRefused, match=f"{today} is at snapshot"):
        creator(tables, tomorrow).create(order(lab, tomorrow))  # today has another end by now
    assert tagged_rows(lab, today) == [1, 2]


def test_an_order_that_comes_twice_or_late_makes_no_second_tag(lab: Lab, tables: Any) -> None:
    lab.create("id BIGINT", **DAILY)
    lab.insert("(1)")
    first = order(lab, tomorrow := now_ms() + DAY_MS)
    creator(tables, tomorrow).create(first)
    before = lab.table().metadata
    for days in (0, 1, 40):
        at_ms = tomorrow + days * DAY_MS
        assert creator(tables, at_ms).create(first).numbers == {"tags_created": 0}
    assert lab.table().metadata == before
    # what the owner's rule has taken away stays away
    lab.sql(f"ALTER TABLE {{t}} DROP TAG `{day(now_ms())}`")
    lab.sql("ALTER TABLE {t} SET TBLPROPERTIES ('firnline.expire.tags' = 'daily-* 30d')")
    for days, made in ((40, 0), (20, 1)):
        told = creator(tables, tomorrow + days * DAY_MS).create(first)
        assert told.numbers == {"tags_created": made}


def test_the_state_is_that_at_the_end_and_not_a_later_one(lab: Lab, tables: Any) -> None:
    """Commits are put into another day by what the catalog tells."""
    lab.create("id BIGINT", **DAILY)
    for one in (1, 2, 3):
        lab.insert(f"({one})")
    now, named = now_ms(), day(now_ms())

    class Shifted:
        """Of three commits the first two are of yesterday."""

        def __getattr__(self, name: str) -> Any:
            return getattr(tables, name)

        def load(self, table: Any) -> Any:
            found = tables.load(table)
            log = found.metadata.snapshot_log
            log[:] = [
                one.model_copy(update={"timestamp_ms": now - DAY_MS * (place < 2)})
                for place, one in enumerate(log)
            ]
            return found

    creator(Shifted(), now).create(order(lab, now))
    assert refs(lab) == {"main", day(now - DAY_MS)}
    assert tagged_rows(lab, day(now - DAY_MS)) == [1, 2]
    creator(Shifted(), now + DAY_MS).create(order(lab, now + DAY_MS))
    assert tagged_rows(lab, named) == [1, 2, 3]


@pytest.mark.parametrize("kind", ["TAG", "BRANCH"])
def test_a_name_that_is_taken_stays_its_owners(lab: Lab, tables: Any, kind: str) -> None:
    lab.create("id BIGINT", **{"firnline.tags.create": "y-{year}; daily-{date}"})
    lab.insert("(1)")
    tomorrow = now_ms() + DAY_MS
    lab.sql(f"ALTER TABLE {{t}} CREATE {kind} `{day(now_ms())}`")
    lab.insert("(2)")
    with pytest.raises(TaskRefused) as refused:
        creator(tables, tomorrow).create(order(lab, tomorrow))
    assert refused.value.reason == "tag_exists"
    assert day(now_ms()) in str(refused.value)
    seen = preview(tables, order(lab, tomorrow), tomorrow)
    assert seen.refused == f"tag_exists: {day(now_ms())}"


def test_a_tag_keeps_its_snapshot_until_the_owners_rule_lets_it_go(
    lab: Lab, tables: Any, java: Any
) -> None:
    rules = {**DAILY, "firnline.expire.tags": "daily-* 30d"}
    lab.create("id BIGINT", **rules)
    lab.insert("(1)")
    tomorrow = now_ms() + DAY_MS
    creator(tables, tomorrow).create(order(lab, tomorrow))
    lab.sql("INSERT OVERWRITE {t} SELECT 9")
    today = day(now_ms())
    for days, left in ((10, {"main", today}), (40, {"main"})):
        at_ms = now_ms() + days * DAY_MS
        gone = expire("e1", lab.name, at_ms - HOUR_MS, at_ms, agreed=True)
        clocks = {"the storage": at_ms}
        Expirer(
            tables, java, lambda _: (), "w1", lambda at=at_ms: at, ask=lambda _, seen=clocks: seen
        ).expire(gone)
        assert refs(lab) == left
        if today in left:
            assert tagged_rows(lab, today) == [1]


def test_two_workers_at_once_make_one_tag(lab: Lab, tables: Any) -> None:
    lab.create("id BIGINT", **DAILY)
    lab.insert("(1)")
    tomorrow = now_ms() + DAY_MS

    class Late:
        """Between whose look and commit another worker has been."""

        def __init__(self) -> None:
            self.meets = True

        def __getattr__(self, name: str) -> Any:
            return getattr(tables, name)

        def commit_changes(self, *what: Any) -> bool:
            if self.meets:
                self.meets = False
                creator(tables, tomorrow).create(order(lab, tomorrow))
            return tables.commit_changes(*what)

    made = creator(Late(), tomorrow).create(order(lab, tomorrow))
    assert made.numbers["tags_created"] == 0
    assert refs(lab) == {"main", day(now_ms())}


def test_what_holds_now_is_asked(lab: Lab, tables: Any) -> None:
    lab.create("id BIGINT")
    lab.insert("(1)")
    now = now_ms()
    for text, why in (("", "no_tags"), ("daily", "unreadable_tags")):
        lab.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ('firnline.tags.create' = '{text}')")
        with pytest.raises(TaskRefused) as refused:
            creator(tables, now + DAY_MS).create(order(lab, now + DAY_MS))
        assert refused.value.reason == why
    lab.sql(
        "ALTER TABLE {t} SET TBLPROPERTIES ('firnline.tags.create' = 'daily-{date}')".replace(
            "{t}", f"lake.{lab.namespace}.t"
        )
    )
    with pytest.raises(TaskRefused, match="the order") as refused:
        creator(tables, now).create(order(lab, now + DAY_MS))
    assert (refused.value.reason, refused.value.retryable) == ("clocks_differ", True)
    assert refs(lab) == {"main"}
