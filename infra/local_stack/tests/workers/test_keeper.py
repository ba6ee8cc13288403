"""What keeps workers: its limits, and what it says of a number that it does not know."""

from __future__ import annotations

import pytest
from firnline_domain.errors import RetryLater
from firnline_domain.policy.fleet.worker_count import WorkerLimits
from firnline_domain.policy.fleet.worker_memory import Steps
from firnline_local.workers import keeper
from firnline_local.workers.keeper import WorkerKeeper, read_limits


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("0..4", WorkerLimits(0, 4)),
        ("2", WorkerLimits(2, 2)),
        ("1..8:30:120", WorkerLimits(1, 8, 30_000, 120)),
    ],
)
def test_limits_are_numbers_of_workers_and_times(text: str, limits: WorkerLimits) -> None:
    assert read_limits(text) == limits


@pytest.mark.parametrize(
    "text", ["", "0", "-1", "4..2", "..4", "0..", "a..b", "0..4:30", "0..4:1:2:3", "0..4:-1:5",
             "0..4:1:0"]
)  # fmt: skip
def test_other_limits_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write a number of workers such as 2"):
        read_limits(text)


class Pool:
    workers, size = 3, "heap=3072m"

    def count(self) -> int:
        return self.workers

    def set_count(self, count: int) -> None:
        self.workers = count

    def set_memory(self, steps: Steps) -> str:
        return self.size if steps == Steps(heap=1) else ""


def test_a_number_that_is_unknown_is_said_once_and_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keeper, "LOOK_S", 0)
    said, answers = list[tuple[str, str]](), ["gone", "gone", "4", "gone", "9"]

    def read() -> int:
        answer = answers.pop(0)
        if answer == "gone":
            raise RetryLater("no console")
        return int(answer)

    pool = Pool()
    one = WorkerKeeper(
        pool, WorkerLimits(0, 8), read, lambda: Steps(heap=pool.workers == 8),
        lambda what, detail: said.append((what, detail)),
    )  # fmt: skip
    for workers in (3, 3, 4, 4, 8):
        one.run_due_actions()
        assert pool.workers == workers
    assert said == [
        ("count-kept", "no console"),
        ("scaled", "from=3 to=4"),
        ("count-kept", "no console"),
        ("scaled", "from=4 to=8"),
        ("sized", "heap=3072m"),
    ]
