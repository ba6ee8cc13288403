"""What a commit's summary says of who made it."""

from __future__ import annotations

from firnline_domain.records.events import SnapshotAdded
from firnline_enricher.file_changes import MAX_MAKER, maker_of


def snapshot(operation: str, **summary: str) -> SnapshotAdded:
    said = {name.replace("_", "-"): value for name, value in summary.items()}
    return SnapshotAdded(5, 3, 2, 6, operation, "list", said)


def test_a_replace_says_which_engine_made_it() -> None:
    made = snapshot("replace", engine_name="spark", app_id="local-1", total_records="7")
    assert maker_of(made) == {"engine-name": "spark", "app-id": "local-1"}


def test_amoro_marks_its_own() -> None:
    made = SnapshotAdded(5, 3, 2, 6, "overwrite", "l", {"snapshot.producer": "OPTIMIZE"})
    assert maker_of(made) == {"snapshot.producer": "OPTIMIZE"}


def test_nobody_asks_who_wrote_rows() -> None:
    assert maker_of(snapshot("append", engine_name="spark")) == {}


def test_a_value_is_cut_where_nobody_reads_on() -> None:
    assert len(maker_of(snapshot("replace", app_id="x" * 999))["app-id"]) == MAX_MAKER
