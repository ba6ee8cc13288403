"""`with_numbers` says what holds for a table, where it comes from, and why."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from firnline_console.http.explain import explanation_json, triggers_json
from firnline_console.text.labels import WORDS, label_of
from firnline_console.views.table_settings import settings_json
from firnline_console.views.tables import TableStates, fold_state, fold_states
from firnline_domain.base.values import replace
from firnline_domain.counters.state.counters import PartitionCounters, TableCounters
from firnline_domain.counters.state.work import Partition, Table
from firnline_domain.identity import Scope, TableName
from firnline_domain.policy.partition.decide import with_numbers
from firnline_domain.policy.reasons import Decision, Reason
from firnline_domain.policy.table_action.registry import ORDER_REASONS, TABLE_ACTIONS, WAIT_REASONS
from firnline_domain.policy.table_action.snapshot_retention import ExpiryReason
from firnline_domain.policy.triggers.table import TRIGGERS
from firnline_domain.records.parts.conflict_reasons import ConflictReason
from firnline_domain.records.parts.tallies import FileTally
from firnline_domain.records.pauses import TableHold
from firnline_domain.records.states import ExpiryPlan, SettingInForce, TableReads
from firnline_domain.settings.in_force import settings_in_force
from firnline_domain.settings.thresholds import PROPERTIES, Thresholds

from tests.kit.partitions import policy_input, table_input

Make = Callable[..., Any]
STATE = "table_state/in_flight"


Sources = Callable[..., dict[str, tuple[str, str]]]


@pytest.fixture
def sources(make: Make) -> Sources:
    """(Value, source) by name: of these properties, under a planner with these defaults."""

    def found(
        settings: dict[str, str], fleet: Thresholds | None = None
    ) -> dict[str, tuple[str, str]]:
        told = tuple(
            one for one in settings_in_force(settings, fleet).values() if one.origin != "default"
        )
        state = make(STATE, settings=settings, in_force=None if fleet is None else told)
        return {one["name"]: (one["value"], one["source"]) for one in settings_json(state)}

    return found


def test_settings_say_where_they_come_from(sources: Sources) -> None:
    found = sources({"firnline.rewrite.min-fragments": "3", "firnline.retain.hours": "24"})
    assert found["firnline.rewrite.min-fragments"] == ("3", "table property")
    assert found["firnline.retain.hours"] == ("24", "table property")
    assert found["firnline.rewrite.min-equality-deletes"] == ("4", "default")
    assert found.keys() == PROPERTIES.keys()


def test_every_origin_is_told(sources: Sources) -> None:
    settings = {
        "firnline.rewrite.min-fragments": "3",
        "firnline.rewrite.max-age-ms": "60000",
        "namespace:firnline.retain.hours": "24",
        "policy:lake.*.events_*:firnline.group": "default",
    }
    found = sources(settings, Thresholds(min_position_deletes=5))
    assert found["firnline.rewrite.min-fragments"] == ("3", "table property")
    assert found["firnline.rewrite.max-age-ms"] == ("60000", "table property")
    assert found["firnline.retain.hours"] == ("24", "property of namespace shop")
    assert found["firnline.group"] == ("default", "policy lake.*.events_*")
    assert found["firnline.rewrite.min-position-deletes"] == (
        "5",
        "deployment (the planner's environment)",
    )
    assert found["firnline.rewrite.min-equality-deletes"] == ("4", "default")


def test_a_setting_of_a_newer_planner_is_shown(make: Make) -> None:
    newer = SettingInForce("firnline.rewrite.new", "1", "table")
    shown = settings_json(make(STATE, in_force=(newer,)))
    assert [one["value"] for one in shown if one["name"] == newer.name] == ["1"]


def test_a_property_equal_to_the_default_is_still_the_tables(sources: Sources) -> None:
    assert sources({"firnline.enabled": "true"})["firnline.enabled"] == ("true", "table property")


def test_a_property_that_cannot_be_read_is_said_so(sources: Sources) -> None:
    value, source = sources({"firnline.rewrite.min-fragments": "many"})[
        "firnline.rewrite.min-fragments"
    ]
    assert (value, source) == ("8", "default; 'many' of the table property cannot be read")


def answer(state: Any) -> dict[str, Any]:
    return explanation_json(fold_state(None, state), fold_states(None, state), [], None, 0)


def test_a_partition_has_its_reason_numbers_and_words(make: Make) -> None:
    [part] = answer(make(STATE))["partitions"]
    assert (part["label"], part["status"], part["reason"]) == (
        "2026-11-21",
        "in_flight",
        "equality_deletes",
    )
    assert part["debt_files"] == 2
    assert part["numbers"] == {"equality_delete_files": 12.0}


def test_a_paused_partition_says_what_failed(make: Make) -> None:
    state = make(STATE)
    failed = replace(state.partitions[0], status="parked", reason="out_of_memory", failures=3)
    [part] = answer(replace(state, partitions=(failed,)))["partitions"]
    assert part["words"] == "ran out of memory; failed 3 times in a row"


def test_the_verdict_is_one_sentence(make: Make) -> None:
    state = make(STATE)
    assert answer(state)["verdict"] == "1 partition of 1 being rewritten now."
    numbers = {
        "fragments": 1,
        "min_fragments": 8,
        "equality_deletes": 1,
        "min_equality_deletes": 4,
        "position_deletes": 1,
        "min_position_deletes": 8,
    }
    idle = replace(state.partitions[0], status="idle", reason="accumulating", numbers=numbers)
    assert answer(replace(state, partitions=(idle,), statuses={"idle": 1}))["verdict"] == (
        "2 files of debt. The deepest, 2026-11-21: not enough yet (small files 1 of 8, "
        "equality deletes 1 of 4, position deletes 1 of 8)."
    )
    parked = replace(state.partitions[0], status="parked", reason="out_of_memory", failures=3)
    many = replace(state, statuses={"parked": 170, "idle": 20}, partition_count=190)
    assert answer(replace(many, partitions=(parked,)))["verdict"] == (  # of all, not of those shown
        "170 partitions of 190 suspended; `firnline unpark shop.orders` retries them."
    )
    waiting = answer(replace(state, waiting_for_resync=True))
    assert waiting["verdict"].startswith("Commits are missing")


@pytest.mark.parametrize(
    ("reads", "settings", "words"),
    [
        (None, {"firnline.reads-per-hour": "1"}, "1 scan an hour, assumed"),
        (None, {}, "2 scans an hour, assumed"),
        (None, {"firnline.reads-per-hour": "7.5"}, "7.5 scans an hour, assumed"),
        (TableReads(61.23, 0, 64.0), {}, "64 scans an hour, learned (61.2 by reports of 2 h)"),
        (TableReads(0.42, 0, 2.0), {}, "2 scans an hour, assumed (0.42 by reports of 2 h)"),
        (
            TableReads(9_000_000.0, 0, 3.0),
            {"firnline.reads-per-hour": "3", "firnline.reads-from": "assumed"},
            "3 scans an hour, assumed (9,000,000 by reports of 2 h)",
        ),
    ],
)
def test_it_says_how_often_a_table_is_read_and_who_says_so(
    make: Make, reads: TableReads | None, settings: dict[str, str], words: str
) -> None:
    state = make(STATE, reads=reads, settings=settings, updated_at_ms=7_200_000)
    found = answer(state)["reads"]
    assert found["words"] == words
    assert found["per_hour"] == (reads.in_force if reads else float(words.split()[0]))
    assert found["reported_per_hour"] == (reads and reads.reported)


def test_the_fleets_assumption_is_that_of_its_planner(make: Make) -> None:
    told = SettingInForce("firnline.reads-per-hour", "20", "fleet")
    assert answer(make(STATE, in_force=(told,)))["reads"]["per_hour"] == 20.0
    assert (
        explanation_json(fold_state(None, make(STATE)), TableStates(), [], None, 0)["reads"] is None
    )


def test_the_answer_is_json(make: Make) -> None:
    text = json.dumps(answer(make(STATE)), allow_nan=False)
    assert '"head_snapshot_id": "7402233445566778899"' in text


@pytest.mark.parametrize(
    "code", [*Reason, *ORDER_REASONS, *WAIT_REASONS, *ExpiryReason, *ConflictReason]
)
def test_every_code_of_the_domain_has_words(code: str) -> None:
    assert WORDS[str(code.value)]  # type: ignore[attr-defined]


def test_words_need_no_number_that_the_policy_does_not_send() -> None:
    """The names in braces are those of `evidence`."""
    partition = Partition(PartitionCounters(Scope(0, "[]"), 1, 1, FileTally()))
    table = Table(TableCounters(TableName("u", ("db",), "t"), "main", known=True))
    limits = Thresholds()
    sent = with_numbers(policy_input(table, partition, limits, 0), Decision(Reason.HEALTHY)).numbers
    sent = {**dict.fromkeys(sent, 1.0), "mendable_size_error": 0.3, "max_size_error": 0.2}
    sent["size_error"] = 0.9
    for action in TABLE_ACTIONS.values():
        sent |= dict.fromkeys(action.order_numbers(table_input(table, limits)), 1.0)
    for code, phrase in WORDS.items():
        assert "{" not in label_of(code, sent)
        assert label_of(code, sent) != code.replace("_", " ") or "{" not in phrase
    assert "by 0.9, a merge fixes 0.3, 0.2 triggers a rewrite" in label_of("size_error", sent)


def test_a_table_that_is_held_back_says_so_first(make: Make) -> None:
    state = make("table_state/paused")
    assert answer(state)["verdict"] == (
        "Delayed: maintenance was paused by a person; `firnline status` shows how to end it, "
        "since 2026-09-21 14:13Z, by ops: storage migration."
    )
    assert answer(state)["hold"]["reason"] == "paused"
    assert answer(state)["table"]["hold"]["detail"] == "by ops: storage migration"


def test_a_window_that_cannot_be_read_says_how_to_write_it(sources: Sources) -> None:
    value, source = sources({"firnline.window": "at night"})["firnline.window"]
    assert value == "at night"
    assert "nothing is ordered: 'at night' cannot be read: write '[DAYS] HH:MM-HH:MM" in source
    assert sources({})["firnline.window"] == ("not set", "default")


def test_the_verdict_leaves_to_the_setting_how_a_window_is_written(make: Make) -> None:
    state = make("table_state/paused", hold=TableHold("unreadable_window", detail="write it so"))
    assert answer(state)["verdict"] == (
        "Delayed: no task starts, because firnline.window or firnline.blackout cannot be read."
    )
    assert answer(state)["hold"]["detail"] == "write it so"


def test_shadow_mode_says_what_would_be_ordered(make: Make) -> None:
    state = make(STATE, hold=TableHold("shadow"))
    would = replace(state.partitions[0], status="would_order", reason="old_debt")
    shown = replace(state, partitions=(would,), statuses={"would_order": 1})
    assert answer(shown)["verdict"] == (
        "Shadow mode: a rewrite of 1 partition of 1 would be ordered now. The deepest, 2026-11-21: "
        f"{label_of('old_debt')}."
    )
    idle = replace(would, status="idle", reason="healthy")
    assert answer(replace(state, partitions=(idle,)))["verdict"] == (
        "Shadow mode: nothing would be ordered now."
    )


def test_what_the_last_rewrite_has_left_is_not_counted_against_the_threshold() -> None:
    numbers = {"fragments": 9, "new_fragments": 1, "min_fragments": 8}
    assert label_of("accumulating", numbers) == (
        "not enough yet (small files 1 of 8 since the last rewrite, which could do nothing about "
        "the other 8)"
    )
    of_all = {"global_deletes": 3, "new_global_deletes": 3, "min_equality_deletes": 4}
    assert label_of("accumulating", of_all) == "not enough yet (global equality deletes 3 of 4)"


def test_an_announced_expiry_says_when_and_how_much_and_how_to_stop_it(make: Make) -> None:
    state = make(STATE, expiry_plan=ExpiryPlan(1_795_000_000_000, 12, 310, 4_200_000_000))
    assert answer(state)["expiry"]["words"] == (
        "expiry of 12 snapshots (310 files, about 4.2 GB) begins at 2026-11-18 11:06Z; set "
        "firnline.expire.enabled=false to stop it, =true to begin at once"
    )


def test_a_number_of_snapshots_that_is_unknown_is_not_0(make: Make) -> None:
    found = answer(make(STATE, snapshot_count=None))
    assert (found["expiry"]["snapshots"], found["table"]["snapshots"]) == (None, None)


@pytest.mark.parametrize("size", [None, 9_400_000])
def test_the_size_of_the_metadata_is_told_where_it_is_known(make: Make, size: int | None) -> None:
    assert answer(make(STATE, metadata_bytes=size))["table"]["metadata_bytes"] == size


@pytest.mark.parametrize(
    ("ratio", "extent"),
    [(0.0, "full: every"), (1.0, "minor: no larger"), (0.2, "major: larger files")],
)
def test_an_order_says_how_much_it_rewrites(ratio: float, extent: str) -> None:
    numbers = {"fragments": 9, "min_fragments": 8, "min_dead_ratio": ratio}
    assert extent not in label_of("fragments", numbers)  # no delete reaches a file
    numbers |= {"dead_rows": 3}
    assert f"; {extent}" in label_of("fragments", numbers)
    assert extent not in label_of("fixed_point", numbers)


def test_a_full_rewrite_says_how_often_it_comes() -> None:
    text = label_of("full_interval", {"full_interval_h": 168.0, "min_dead_ratio": 0.0})
    assert "every 168 h" in text
    assert text.endswith("; full: every file is rewritten")


def test_the_way_to_v3_is_told_in_partitions(make: Make) -> None:
    words = {
        left: answer(make(STATE, v2_partitions=left, partition_count=400))["actions"]
        for left in (None, 120, 0)
    }
    assert words[None] == {}
    told = words[120]["upgrade_format"]["words"]
    assert told == "v3: 120 of 400 partitions hold delete files of v2"
    assert words[0]["upgrade_format"]["words"] == "v3: no delete file of v2 is left"


def test_an_action_on_the_table_is_told_with_its_price(make: Make) -> None:
    state = make("table_state/paused")
    told = explanation_json(fold_state(None, state), fold_states(None, state), [], None, 0)
    found = told["actions"]["compute_statistics"]
    assert "would read 200 GB (about 4,400 CPU s)" in found["words"]
    assert "max-bytes allows 100 GB" in found["words"]


def test_an_action_says_what_it_costs_and_spares(make: Make) -> None:
    numbers = {
        **{"manifests": 400.0, "full_manifests": 1.0, "min_manifests": 100.0},
        **{"price_cpu_s": 3.1, "price_requests": 406.0, "price_dollars": 0.000213},
        **{"gain_cpu_s_a_day": 191.5, "gain_requests_a_day": 19_152.0, "gain_bytes": 0.0},
        **{"gain_dollars_a_day": 0.0103},
    }
    state = make(
        STATE,
        actions={"rewrite_manifests": "many_manifests", "create_tags": "healthy"},
        action_numbers={"rewrite_manifests": numbers},
    )
    told = answer(state)["actions"]
    assert told["rewrite_manifests"]["words"].endswith(
        "; costs about 3.1 CPU s and 406 requests ($0.00021); "
        "spares readers 192 CPU s and 19,152 requests a day ($0.01 a day)"
    )
    assert told["rewrite_manifests"]["numbers"] == numbers
    paced = replace(state, action_numbers={"rewrite_manifests": {**numbers, "price_pace": 2.345}})
    words = answer(paced)["actions"]["rewrite_manifests"]["words"]
    assert "costs about 3.1 CPU s (2.3 times the benchmark, by earlier results) and 406" in words
    assert told["create_tags"]["words"] == "nothing to do"


def test_an_expiry_that_is_announced_says_its_price(make: Make) -> None:
    numbers = {
        **{"price_cpu_s": 86.0, "price_requests": 11_707.0, "price_dollars": 1.5},
        **{"gain_cpu_s_a_day": 0.0, "gain_requests_a_day": 0.0, "gain_bytes": 3e9},
        **{"gain_dollars_a_day": 0.0021},
    }
    state = make(STATE, expiry_reason="too_few", action_numbers={"expire": numbers})
    words = answer(state)["expiry"]["words"]
    assert words.endswith(
        "; costs about 86 CPU s and 11,707 requests ($1.50); frees 3.0 GB ($0.0021 a day)"
    )
    assert not answer(make(STATE, expiry_reason="too_few"))["expiry"]["words"].count("$")


@pytest.mark.parametrize("reason", ["waiting_for_budget", "unsorted"])
def test_what_is_ordered_or_waits_for_the_budget_says_what_it_is_worth(
    make: Make, reason: str
) -> None:
    [part] = make(STATE).partitions
    part = replace(
        part,
        status="idle",
        reason=reason,
        numbers={"rewrite_dollars": 0.0064, "spared_dollars_a_day": 0.024},
    )
    [told] = answer(make(STATE, partitions=(part,)))["partitions"]
    assert told["words"].endswith("; costs $0.0064, spares readers $0.024 a day")


def test_every_trigger_is_shown_with_its_numbers_and_when_it_fires(make: Make) -> None:
    [part] = make(STATE).partitions
    shown = [*triggers_json(replace(part, numbers={**part.numbers, "fragments": 3.0}))]
    assert [one["trigger"] for one in shown] == [one.reason for one in TRIGGERS]
    first = reversed(shown)  # of two triggers of one reason
    fires = {one["trigger"]: (one["fires"], one["at_ms"], one["waits_for"]) for one in first}
    assert fires["equality_deletes"] == ("now", None, "")
    assert fires["position_deletes"] == ("after a commit", None, "")
    assert fires["old_debt"] == ("later", 1795273601000, "")
    assert fires["read_debt"] == ("waiting", 1795273601000, "hot")
    assert fires["closed"] == ("off", None, "")
    [fragments] = [one for one in shown if one["trigger"] == "fragments"]
    assert (fragments["numbers"], fragments["words"]) == ({"fragments": 3.0}, "")
    known = replace(part, numbers={"fragments": 3.0, "min_fragments": 4.0})
    [fragments] = [one for one in triggers_json(known) if one["trigger"] == "fragments"]
    assert fragments["words"] == "3 small files, 4 trigger a rewrite"
