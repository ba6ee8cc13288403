"""Policies by pattern: in the decisions, after a change without a commit, and after a restart."""

from __future__ import annotations

from dataclasses import dataclass, field

from firnline_domain.records.events import ChangeKind, TickPassed
from firnline_domain.records.orders import RewriteFiles, TableOrder
from firnline_domain.records.states import TableAdvice
from firnline_domain.settings.policies import Policy, TablePolicies
from firnline_domain.settings.table_rules import TableRule
from firnline_planner.bucket.bucket import PlannerBucket

from tests.kit.names import TABLE
from tests.kit.planner_world import A, B, PlannerWorld, failed, only, part

MATCH = f"{TABLE.catalog}.**"


def policies(**values: object) -> TablePolicies:
    named = {f"firnline.{name.replace('_', '-')}": str(one) for name, one in values.items()}
    return TablePolicies([Policy(MATCH, tuple(named.items()))])


@dataclass
class World(PlannerWorld):
    """A planner whose policies the test changes."""

    policies: TablePolicies = field(default_factory=TablePolicies)
    max_reconciles: int | None = None

    def restart(self, limits: object = None) -> None:
        self.bucket = PlannerBucket(
            self.store, self.limits, self.max_reconciles, read_policies=lambda: self.policies
        )

    def rewrites(self, ms: int = 1_000) -> list[RewriteFiles]:
        return [one for one in self.tick(ms) if isinstance(one, RewriteFiles)]


def test_a_policy_decides_and_its_pattern_is_published() -> None:
    world = World(policies=policies(enabled="false"))
    assert not [one for one in world.commit(part(A, 8)) if isinstance(one, RewriteFiles)]
    [shown] = [one for one in world.state().in_force or () if one.name == "firnline.enabled"]
    assert (shown.value, shown.origin, shown.policy) == ("false", "policy", MATCH)


def test_every_task_contains_the_policies_that_it_was_decided_by() -> None:
    set_here = policies(**{"retain.hours": 1, "expire.enabled": "true"})
    world = World(policies=set_here)
    world.commit(
        part(A, 8),
        kind=ChangeKind.ABSOLUTE,
        oldest_snapshot_ms=1,
        snapshot_count=9,
        manifests=500,
        manifest_bytes=1_000_000,
        settings={"firnline.enabled": "true"},
    )
    world.tick(8 * 3_600_000)
    orders = [one.record for one in world.sent if isinstance(one.record, RewriteFiles | TableOrder)]
    assert {one.action for one in orders} >= {"compact", "expire", "rewrite_manifests"}
    assert all(one.policies == set_here.properties_of(TABLE) for one in orders)


def test_a_change_of_the_policies_needs_no_commit_and_no_restart() -> None:
    world = World(policies=policies(enabled="false"))
    world.commit(part(A, 8), part(B, 8))
    assert not world.rewrites()
    world.policies = TablePolicies()
    assert [one.scope for one in world.rewrites()] == [A, B]
    assert not [one for one in world.state().in_force or () if one.origin == "policy"]


def test_the_tables_own_property_is_stronger_after_a_change_too() -> None:
    world = World(
        policies=policies(enabled="false"), more={"settings": {"firnline.enabled": "true"}}
    )
    only(world.commit(part(A, 8)))
    world.policies = policies(enabled="false", shadow="true")
    world.tick()
    assert world.state().settings == {
        "firnline.enabled": "true",
        f"policy:{MATCH}:firnline.enabled": "false",
        f"policy:{MATCH}:firnline.shadow": "true",
    }


def test_what_failed_may_work_under_other_policies() -> None:
    world = World(policies=policies(group="a"))
    world.take(failed(only(world.commit(part(A, 8))), retryable=False))
    assert not world.rewrites()
    world.policies = TablePolicies()
    assert [one.scope for one in world.rewrites()] == [A]


def test_a_change_while_no_planner_runs_is_found_at_the_start() -> None:
    world = World(policies=policies(enabled="false"))
    world.commit(part(A, 8))
    world.tick()
    world.policies = TablePolicies()
    world.restart()
    assert [one.scope for one in world.rewrites()] == [A]


def test_a_planner_that_ends_within_the_change_begins_it_again() -> None:
    world = World(policies=policies(enabled="false"), max_reconciles=1)
    world.commit(part(A, 8))
    world.tick()
    world.policies = TablePolicies()
    world.now_ms += 1_000
    world.take(TickPassed(0, world.now_ms), keep=False)
    world.restart()
    assert [one.scope for one in world.rewrites()] == [A]


def test_a_rule_that_a_table_breaks_is_told_and_withdrawn_without_a_commit() -> None:
    world = World()
    world.commit(part(A, 1), facts={"owner": ()})
    assert "broken_rules" not in world.state().advised
    world.policies = TablePolicies((), [TableRule(MATCH, (("owner", "*"),), ())])
    world.tick()
    assert "broken_rules" in world.state().advised
    [advice] = [one.record for one in world.sent if isinstance(one.record, TableAdvice)]
    assert advice.finding == f"{MATCH}: owner must be *, and is not set"
    world.commit(part(A, 1), facts={"owner": ("finance",)})
    assert "broken_rules" not in world.state().advised
