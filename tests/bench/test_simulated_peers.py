"""What the simulated peers take, beside what their code takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from firnline_domain.identity import Scope
from firnline_domain.policy.cost.cost_benefit import Action
from firnline_domain.records.results import DeleteKind
from firnline_iceberg.metadata.entries import DataFileEntry, DeleteFileEntry, EntryStatus
from firnline_iceberg.scan.planning import LiveFiles
from firnline_simulated_units import RECORDS, Cohort, held
from firnline_worker.plan.planning import plan

from bench.simulate.choosing import BinPackSettings, amoro_plan, bin_pack
from bench.simulate.lake import FILES, Held
from bench.simulate.parameters import MB
from bench.simulate.peers import converting
from bench.simulate.tasks import Choice
from bench.simulate.worker import chosen_by_worker

Taken = dict[int, tuple[float, float]]  # by cohort: files rewritten, files converted
T = 128

# Recorded from Amoro's own `IcebergPartitionPlan` and `CommonPartitionEvaluator` at 96a4d781,
# compiled beside Iceberg 1.12.0 and given the same files: what was rewritten and what converted.
AMORO = json.loads(Path(__file__).with_name("amoro_plans.json").read_text())


def taken(choice: Choice, unit: Held) -> Taken:
    found = {}
    for cohort, files in enumerate(unit.cohorts[FILES, 0].tolist()):
        rewrites, converts = choice.rewrites[0, cohort], choice.converts[0, cohort]
        if rewrites or converts:
            found[cohort] = (pytest.approx(files * rewrites), pytest.approx(files * converts))
    return found


@pytest.mark.parametrize("case", AMORO, ids=[case["case"] for case in AMORO])
def test_amoro_takes_the_files_that_its_own_classes_take(case: dict[str, Any]) -> None:
    unit = held(case["cohorts"])
    since_minor_s = np.array([float(case["since_minor_s"])])
    found = amoro_plan(unit, case["target_mb"] * MB, since_minor_s)
    assert found.necessary[0] == (case["process"] != "NONE")
    if found.necessary[0]:
        assert bool(found.major[0]) == (case["process"] == "MAJOR")
        expected = {int(cohort): tuple(files) for cohort, files in case["taken"].items()}
        assert taken(found.choice, unit) == expected


@pytest.mark.parametrize(
    ("cohorts", "settings", "expected"),
    [
        ([(0, 4, 1, 0, 0, 0)], BinPackSettings(), {}),  # fewer than min-input-files
        ([(0, 5, 1, 0, 0, 0)], BinPackSettings(), {0: (5, 0)}),
        ([(1, 2, 70, 0, 0, 0)], BinPackSettings(), {1: (2, 0)}),  # more than a target
        ([(0, 9, 1, 3, 0, 0), (4, 6, T, 3, 0, 0)], BinPackSettings(), {0: (9, 0)}),
        ([(4, 6, T, 3, 0, 0)], BinPackSettings(delete_files=3), {4: (6, 0)}),
        ([(4, 6, T, 2, 0, 0)], BinPackSettings(delete_files=3), {}),
        ([(4, 6, T, 0, 1, 0.29), (5, 6, T, 0, 1, 0.31)], BinPackSettings(), {5: (6, 0)}),
        ([(4, 2, 250, 0, 0, 0), (5, 2, T, 0, 0, 0)], BinPackSettings(), {4: (2, 0)}),  # too large
        ([(4, 6, T, 0, 0, 0)], BinPackSettings(rewrite_all=True), {4: (6, 0)}),
    ],
)
def test_bin_pack_takes_what_its_planner_takes(
    cohorts: list[Cohort], settings: BinPackSettings, expected: Taken
) -> None:
    unit = held(cohorts)
    assert taken(bin_pack(unit, T * MB, settings), unit) == expected


def test_bin_pack_leaves_equality_deletes_that_reach_a_file_that_stays() -> None:
    small, large = (0, 9, 1, 3, 0, 0), (4, 6, T, 3, 0, 0)
    assert not bin_pack(held([small, large]), T * MB).clears[0]
    assert bin_pack(held([small]), T * MB).clears[0]


def test_convert_and_bin_pack_converts_what_it_does_not_pack() -> None:
    unit = held([(0, 2, 1, 3, 0, 0), (4, 6, T, 3, 0, 0), (5, 6, T, 3, 1, 0.4)])
    found = converting(unit, bin_pack(unit, T * MB))
    assert taken(found, unit) == {0: (2, 0), 4: (0, 6), 5: (6, 0)}


ROWS = 10_000


def live_files(cohorts: list[Cohort]) -> LiveFiles:
    """The same as files: a cohort's with a data sequence number below the deletes that reach it."""
    came = int(max(reach for _, _, _, reach, _, _ in cohorts))
    files, deletes = [], []

    def entry(path: str, number: int, size: float, records: int) -> dict[str, object]:
        return {
            "path": path,
            "manifest_path": "m",
            "status": EntryStatus.ADDED,
            "snapshot_id": 1,
            "sequence_number": number,
            "file_sequence_number": number,
            "spec_id": 0,
            "partition": "[1]",
            "format": "PARQUET",
            "records": records,
            "bytes": int(size),
        }

    for cohort, many, size, reach, positions, masked in cohorts:
        for place in range(int(many)):
            path, number = f"{cohort}_{place}", 1 + came - int(reach)
            files.append(DataFileEntry(**entry(path, number, size * MB, ROWS)))
            for mark in range(int(positions)):
                rows = int(ROWS * masked / positions)
                made = entry(f"{path}_{mark}", number, 9, rows)
                of = {"kind": DeleteKind.POSITION, "referenced_data_file": path}
                deletes.append(DeleteFileEntry(**made, **of))
    for number in range(came):
        made = entry(f"d{number}", number + 2, 9, int(RECORDS))
        kind = {"kind": DeleteKind.EQUALITY, "equality_ids": (1,)}
        deletes.append(DeleteFileEntry(**made, **kind))
    return LiveFiles(1, tuple(files), tuple(deletes))


@pytest.mark.parametrize("ratio", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("action", [one for one in Action if one is not Action.SORT])
@pytest.mark.parametrize(
    "cohorts",
    [
        [(0, 3, 1, 0, 0, 0)],
        [(0, 1, 1, 0, 0, 0), (4, 2, T, 0, 0, 0)],
        [(0, 1, 1, 2, 0, 0), (4, 2, T, 2, 0, 0), (5, 2, T, 0, 0, 0)],
        [(0, 2, 1, 2, 0, 0), (4, 2, T, 2, 1, 0.3), (5, 2, T, 2, 1, 0.1)],
        [(0, 2, 1, 0, 0, 0), (4, 2, T, 0, 1, 0.3), (5, 2, T, 0, 6, 0.1)],
        [(0, 9, 10, 0, 0, 0), (1, 4, 40, 0, 0, 0), (4, 1, T, 0, 0, 0)],
        [(0, 9, 10, 2, 0, 0), (1, 4, 40, 2, 0, 0), (4, 1, T, 2, 0, 0)],
        [(1, 2, 40, 0, 0, 0)],
    ],
)
def test_firnline_takes_the_files_that_its_worker_takes(
    cohorts: list[Cohort], action: Action, ratio: float
) -> None:
    """A merge is never ordered where there are deletes, so what it would do with them is no
    matter. Rows of an equality delete's keys are few beside the files' here."""
    if action is Action.MERGE and any(reach or marks for _, _, _, reach, marks, _ in cohorts):
        return
    made = plan(live_files(cohorts), Scope(0, "[1]"), T * MB, action, min_dead_ratio=ratio)
    expected: Taken = {}
    for files, place in ((made.inputs, 0), (made.converted, 1)):
        for file in files:
            cohort = int(file.path.partition("_")[0])
            had = list(expected.get(cohort, (0, 0)))
            had[place] += 1
            expected[cohort] = (had[0], had[1])
    unit = held(cohorts)
    actions, ratios = np.array([action], dtype=object), np.array([ratio])
    assert taken(chosen_by_worker(unit, actions, ratios, T * MB), unit) == expected
