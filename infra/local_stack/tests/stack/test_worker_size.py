"""How large a worker may be here."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest
from firnline_domain.policy.fleet.worker_memory import Steps
from firnline_local.stack import worker_size
from firnline_local.stack.worker_size import Size, choose_size, max_bytes

GB = 1 << 30
GIVEN = {"FIRNLINE_HEAP_BYTES": str(GB), "FIRNLINE_TASKS_AT_ONCE": "4"}


def test_without_a_wish_nothing_is_changed() -> None:
    assert choose_size(GIVEN, Steps(), 100 * GB) == Size(GB, GB, 4)


def test_a_step_of_heap_is_2_gb_more() -> None:
    found = choose_size(GIVEN, Steps(heap=2), 100 * GB)
    assert found == Size(5 * GB, 5 * GB, 4)
    assert found.settings == {"FIRNLINE_HEAP_BYTES": str(5 * GB), "FIRNLINE_TASKS_AT_ONCE": "4"}
    assert str(found) == "heap=5120m tasks-at-once=4"


def test_what_was_not_given_is_the_workers_own_default() -> None:
    assert choose_size({}, Steps(heap=1), 100 * GB) == Size(3 * GB, 3 * GB, 4)


def test_the_machine_is_never_asked_for_more_than_its_share() -> None:
    found = choose_size(GIVEN, Steps(heap=4), 2 * GB)
    assert found == Size(2 * GB, 9 * GB, 4)
    assert str(found) == (
        "heap=2048m tasks-at-once=4 (asked for 9216m: more than the machine's share)"
    )


def test_what_a_person_has_set_is_not_taken_away() -> None:
    found = choose_size({"FIRNLINE_HEAP_BYTES": str(12 * GB)}, Steps(heap=1), 2 * GB)
    assert found.heap_bytes == 12 * GB


@pytest.mark.parametrize(("steps", "tasks"), [(1, 2), (2, 1), (4, 1)])
def test_memory_beside_the_heap_is_shared_by_fewer(steps: int, tasks: int) -> None:
    assert choose_size(GIVEN, Steps(overhead=steps), 100 * GB) == Size(GB, GB, tasks)


def test_a_share_of_nothing_switches_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRNLINE_WORKER_MEMORY_SHARE", "0")
    assert max_bytes() == 0


def test_the_share_is_of_the_machine_or_of_the_container(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(worker_size, "LIMITS", (limit, tmp_path / "none"))
    total = psutil.virtual_memory().total
    assert max_bytes() == total // 2
    limit.write_text("max\n")
    assert max_bytes() == total // 2
    limit.write_text(f"{GB}\n")
    assert max_bytes() == GB // 2
    monkeypatch.setenv("FIRNLINE_WORKER_MEMORY_SHARE", "7")
    assert max_bytes() == GB


def test_what_is_no_size_is_refused() -> None:
    with pytest.raises(ValueError, match="much"):
        choose_size({"FIRNLINE_HEAP_BYTES": "much"}, Steps(), GB)
