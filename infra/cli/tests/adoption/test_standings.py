"""What `firnline adopt` says of each table in the end."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from firnline_cli.adoption.counted_tables import CountedTable, CountedTables, known_table
from firnline_cli.adoption.report import JsonAdoptionReport, TextAdoptionReport
from firnline_domain.base.values import replace
from firnline_domain.identity import TableName
from firnline_domain.records.pauses import TableHold
from firnline_domain.records.states import SettingInForce

from tests.examples import make


def test_in_the_end_it_says_what_is_done_with_each_table(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def standing(**changes: object) -> CountedTable:
        name = f"t{next(numbers)}"
        table = TableName(f"uuid-{name}", ("shop",), name)
        plain = make("table_state/in_flight", table=table, hold=None, in_force=())
        return known_table(replace(plain, **changes))

    numbers = count()
    in_force = SettingInForce("firnline.shadow", "true", "fleet")
    off = replace(in_force, name="firnline.enabled", value="false")
    tables = [
        standing(),
        standing(in_force=(in_force,)),
        standing(hold=TableHold("shadow")),
        standing(hold=TableHold("paused")),
        standing(in_force=(off,)),
    ]
    assert [one.standing for one in tables] == [
        *["maintained", "shadow", "shadow", "paused", "off"]
    ]
    TextAdoptionReport(False).report_standings(tables)
    out = capsys.readouterr().out
    assert "1 table maintained" in out
    assert "2 tables in shadow mode: nothing is ordered. Set the table property firnline" in out
    assert "without firnline.shadow in FIRNLINE_DEFAULTS. shop.t1, shop.t2\n" in out
    assert "`firnline resume`" in out
    assert "firnline.enabled=false" in out
    JsonAdoptionReport().report_standings(tables)
    assert '"is_now": "shadow"' in capsys.readouterr().out


def test_a_name_that_two_tables_had_ends_nothing() -> None:
    """A table was dropped and made again, and the tombstone of the second comes first."""
    first, second = (TableName(uuid, ("shop",), "t") for uuid in ("u1", "u2"))
    states: list[Any] = [make("table_state/in_flight", table=table) for table in (first, second)]

    class Topics:
        def new_records(self, topic: str, wanted: Any) -> Any:
            keys = ("u1/main", "u2/main")
            return [*zip(keys, states, strict=True), (keys[1], None), (keys[0], states[0])]

    topics: Any = Topics()
    tables = CountedTables(topics)
    tables.catch_up()
    found = tables.find_by_key("u1")
    assert found is not None
    assert tables.find_table(found.full_name) == found
