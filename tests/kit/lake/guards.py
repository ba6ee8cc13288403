"""Guards of a commit as rows of a table: what writers do before the plan and after it, the verdict,
and the guard without which the wrong rows show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from firnline_domain.commits import conflicts
from firnline_domain.records.events import RewriteConflicted
from firnline_domain.records.parts.conflict_reasons import ConflictReason

from tests.kit.lake.script import Script, parse_rows

Removal = tuple[Any, str, Any]  # object, attribute, what it becomes


def removed(*checks: object) -> Removal:
    """These checks of a result are taken out."""
    left = tuple(one for one in conflicts.CHECKS if one not in checks)
    assert len(left) == len(conflicts.CHECKS) - len(checks)
    return conflicts, "CHECKS", left


@dataclass(frozen=True)
class Guard:
    """`script` ends with what comes between plan and commit. `rows`: ids, or `id:v`, that show
    before and after the verdict, and `wrong` those without the guard; where nothing is `removed`
    there is no such proof."""

    name: str
    script: str
    verdict: ConflictReason
    rows: str
    wrong: str = ""
    removals: Sequence[Removal] = ()
    partitioned: bool = False

    def check(
        self, make_table: Any, committer: Any, monkeypatch: pytest.MonkeyPatch, guarded: bool
    ) -> None:
        """Raises AssertionError if it does not refuse; without it, if the rows are right."""
        table = make_table(partitioned=self.partitioned)
        result = Script(table).play(self.script)
        assert table.rows() == sorted(parse_rows(self.rows))
        if not guarded:
            for removal in self.removals:
                monkeypatch.setattr(*removal)
        (event,) = committer.handle([result])
        if guarded:
            assert isinstance(event, RewriteConflicted), event
            assert event.reason is self.verdict, event.detail
        assert table.rows() == sorted(parse_rows(self.rows if guarded else self.wrong))


def make_guard_test(guards: Sequence[Guard]) -> Any:
    """Return a test with each guard, and without it."""

    @pytest.mark.parametrize(
        ("guard", "guarded"),
        [
            pytest.param(one, guarded, id=f"{one.name}-{guarded}")
            for one in guards
            for guarded in ((True, False) if one.removals else (True,))
        ],
    )
    def test_a_guard(
        make_table: Any, committer: Any, guard: Guard, guarded: bool, monkeypatch: Any
    ) -> None:
        guard.check(make_table, committer, monkeypatch, guarded)

    return test_a_guard
