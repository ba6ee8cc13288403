"""One trial: a table lives under its writers, actions come in any order, some of them end in the
middle, and after each the witness looks."""

from __future__ import annotations

import os
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

from firnline_domain.base.times import DAY_MS
from firnline_domain.errors import RetryLater, TaskRefused
from firnline_domain.identity import MAIN
from firnline_domain.policy.operator_requests import RequestedAction
from firnline_domain.policy.table_action.registry import TABLE_ACTIONS
from firnline_fuzz.maker import Maker

from firnline_actions.ages import all_old
from firnline_actions.checks import Witness, assert_refs_kept
from firnline_actions.crashes import Catalog, Crash, Fuse
from firnline_actions.runs import Runner, all_fine
from firnline_actions.writers import COLUMNS, Writer
from tests.kit.lake.steps import Planned

TEN_DAYS_S = 10 * 86_400
STEPS = {
    "append": 5, "upsert": 6, "erase": 3, "mark": 6, "overwrite": 1, "tag": 2, "branch": 1,
    "drop": 1, "rollback": 1, "evolve": 1, "respec": 1,
}  # fmt: skip
ACTIONS = {
    "merge": 2, "compact": 3, "convert": 3, "full": 1, "sort": 1, "expire": 4, "remove_orphans": 2,
    "remove_dangling_deletes": 2, "rewrite_manifests": 2, "compute_statistics": 2,
    "create_tags": 2, "upgrade_format": 1, "expire_partitions": 2,
}  # fmt: skip
REWRITES = ("merge", "compact", "convert", "full", "sort")
NOT_TRIED = {"archive_partitions"}  # `expire_partitions` of rows that another table has got
assert {*ACTIONS, *NOT_TRIED} == {*REWRITES, *TABLE_ACTIONS}
ENDS = {"whole": 4, "killed": 4, "meddled": 1, "beside": 3}
FAULTS = ((500, True), (500, False), (409, False), ("none", True), ("none", False), ("half", True))


@dataclass
class Ground:
    """What trials share."""

    maker: Maker
    catalog: Catalog
    fuse: Fuse
    runner: Runner
    tables: Any
    spark: Any
    told: Counter[str] = field(default_factory=Counter)


@dataclass
class Trial:
    """Of one seed."""

    ground: Ground
    seed: int
    rounds: int

    def __post_init__(self) -> None:
        self.rng = Random(self.seed)
        rng, maker = self.rng, self.ground.maker
        maker.version = rng.choice([2, 2, 3])
        self.most_kept = rng.choice([1, 1, 2, 4])
        table = maker.table(
            COLUMNS,
            rng.choice([(), (("identity", "p"),), (("bucket[2]", "id"),), (("day", "d"),)]),
            **{
                "history.expire.max-snapshot-age-ms": "1",
                "history.expire.min-snapshots-to-keep": str(self.most_kept),
                "firnline.expire.enabled": "true",
                "firnline.orphans.enabled": "true",
                "firnline.orphans.quarantine-ms": rng.choice(["0", "604800000"]),
                "firnline.statistics": rng.choice(["all", "u, id", "id"]),
                "firnline.partition-statistics": "true",
                "firnline.partitions.ttl-hours": "24",
                "firnline.partitions.column": "d",
                "firnline.rewrite.quiet-ms": "0",
                "firnline.sort": "id",
                "firnline.sort.max-depth": "2",
                "firnline.metadata.previous-versions-max": rng.choice(["0", "2"]),
                "write.metadata.previous-versions-max": "3",
                "commit.manifest.min-count-to-merge": rng.choice(["2", "100"]),
                "commit.retry.num-retries": "2",
                "commit.retry.min-wait-ms": "10",
            },
        )
        self.witness = Witness(self.ground.tables, self.ground.spark, table.name)
        self.table, self.writer = table, Writer(table, self.witness.lineage)
        self.orphans: list[str] = []
        self.script: list[str] = []  # steps of writers as they were planned, and actions
        self.tags_wanted = 0

    def live(self) -> None:
        """Raises AssertionError."""
        self._write(3)
        for _ in range(self.rounds):
            self._round()
        self._end()

    # ---- a round

    def _round(self) -> None:
        rng = self.rng
        self._write(rng.randint(1, 4))
        if rng.random() < 0.25:
            self._time_passes()
        late = self._planned(rng) if rng.random() < 0.3 else None
        before = self._look()
        action, end = _one_of(rng, ACTIONS), _one_of(rng, ENDS)
        if action == "create_tags":
            self._want_a_tag()
        self.writer.moved.clear()
        self.script.append(f"{action} {end}")
        fine = self._act(action, end)
        after = self._look()
        moved = self.writer.moved
        assert_refs_kept(before, after, self.witness.lineage, self.most_kept, moved)
        if fine and action == "expire":
            self._nothing_is_left_behind(after)
        if fine and action == "create_tags":
            made = f"made{self.tags_wanted}-"
            assert [one for one in after.metadata.refs if one.startswith(made)], "no tag"
        if fine and action == "expire_partitions" and end != "beside":
            left = [one.path for one in self.table.live() if one.rows and all_old(one.path)]
            assert not left, f"every row of them is too old: {left}"
        if fine and action == "remove_orphans":
            left = [one for one in self.orphans if os.path.exists(one)]
            assert not left, f"orphans that were old enough are there: {left}"
            self.orphans = []
        self.witness.rows(after)
        if late is not None:
            self.ground.told[f"late {'sent' if self.writer.send(late) else 'refused'}"] += 1

    def _look(self) -> Any:
        with self.ground.fuse.exempt():
            return self.witness.look()

    def _act(self, action: str, end: str) -> bool:
        """Whether the action came to its end, and says that all is well."""
        ground, rng, table = self.ground, self.rng, self.table.name
        every = action in REWRITES and rng.random() < 0.7
        wanted, errors = RequestedAction(action, every_partition=every), list[BaseException]()
        if end == "killed":
            ground.fuse.arm(rng)
        elif end == "meddled":
            ground.catalog.fail(*rng.choice(FAULTS))
        elif end == "beside":
            ground.catalog.before.append(self._beside(Random(rng.random()), errors))
        outcome = "fine"
        try:
            events = ground.runner.run(table, wanted)
            if not all_fine(events):
                outcome = f"not fine: {[_why(one) for one in events][:2]}"
            elif not events:
                outcome = "nothing to do"
        except Crash:
            outcome = "killed"
        except (RetryLater, TaskRefused) as error:
            outcome = f"not fine: {type(error).__name__}"
        finally:
            ground.fuse.disarm()
            ground.catalog.before.clear()
            ground.catalog.faults.clear()
        if errors:
            raise errors[0]
        ground.told[f"{action} {end}: {outcome}"] += 1
        return outcome == "fine"

    def _beside(self, rng: Random, errors: list[BaseException]) -> Any:
        """A writer that commits between the plan of an action and its commit."""

        def commit() -> None:
            with self.ground.fuse.exempt():
                try:
                    self.writer.send(self._planned(rng))
                    self.ground.told["commits beside"] += 1
                except BaseException as error:
                    errors.append(error)

        return commit

    def _want_a_tag(self) -> None:
        """By another name each time."""
        self.tags_wanted += 1
        text = f"made{self.tags_wanted}-{{hour}}"
        self.table.java.updateProperties().set("firnline.tags.create", text).commit()

    # ---- writers

    def _write(self, steps: int) -> None:
        for _ in range(steps):
            sent = self.writer.send(self._planned(self.rng))
            self.ground.told["commits of writers"] += sent

    def _planned(self, rng: Random) -> Planned | None:
        if self.table.java.currentSnapshot() is None:
            return self.writer.append(rng)
        ref = MAIN
        if rng.random() < 0.15:
            branches = [name for name, ref in self.table.java.refs().items() if ref.isBranch()]
            ref = rng.choice(sorted(branches))
        word = _one_of(rng, STEPS)
        self.script.append(word if ref == MAIN else f"{word}@{ref}")
        planned: Planned | None = getattr(self.writer, word)(rng, ref)
        return planned

    def _time_passes(self) -> None:
        """Ten days, for all that is stored; a dead writer's file is among it. Who was killed has
        not come back: what is on a list is swept."""
        root = self.witness.root
        (root / "data").mkdir(exist_ok=True)
        run = uuid.UUID(int=self.rng.getrandbits(128))  # a name as Iceberg's writers give them
        orphan = root / "data" / f"00000-{self.writer.numbers}-{run}-00001.parquet"
        orphan.write_bytes(b"left")
        self.orphans.append(str(orphan))
        for path in root.rglob("*"):
            old = path.stat().st_mtime - TEN_DAYS_S
            os.utime(path, (old, old))
        if self.rng.random() < 0.5:
            self.ground.runner.sweep(self.table.name, later_ms=10 * DAY_MS)

    # ---- what is left

    def _nothing_is_left_behind(self, table: Any) -> None:
        """Of what a snapshot once had, and none has any more."""
        needed = self.witness.needed(table)
        left = {one for one in self.witness.known - needed if os.path.exists(one)}
        assert not left, f"no snapshot has them, and an expiry has ended: {sorted(left)[:5]}"

    def _end(self) -> None:
        """After an expiry, a sweep and the quarantine's time nothing lies there that the table does
        not name."""
        runner, name = self.ground.runner, self.table.name
        self._run_well("expire")
        self.witness.rows(table := self._look(), again=True)
        self._nothing_is_left_behind(table)
        self._time_passes()
        runner.sweep(name, later_ms=10 * DAY_MS)
        self.table.java.updateProperties().set("firnline.orphans.quarantine-ms", "0").commit()
        for _ in range(2):
            self._run_well("remove_orphans")
            time.sleep(0.002)  # the quarantine's time is over after a millisecond
        self.witness.rows(table := self._look(), again=True)
        kept = self.witness.needed(table) | self.witness.metadata_files(table)
        left = self.witness.stored() - kept
        assert not left, f"nothing names them: {sorted(left)[:10]}"
        self.ground.told["snapshots read"] += self.witness.read
        self.ground.told["statistics files read"] += len(self.witness.described)

    def _run_well(self, action: str) -> None:
        events = self.ground.runner.run(self.table.name, RequestedAction(action))
        assert all_fine(events), [_why(one) for one in events]


def _one_of(rng: Random, weights: dict[str, int]) -> str:
    return rng.choices(list(weights), list(weights.values()))[0]


def _why(event: Any) -> str:
    found = getattr(event, "reason", None) or getattr(event, "refused_reason", None)
    return f"{type(event).__name__} {found} {getattr(event, 'message', '')}"
