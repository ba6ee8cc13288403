"""Each row of docs/reference/compatibility.md: such a table is served so, and keeps its rows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from firnline_domain.errors import TaskRefused
from firnline_domain.identity import Scope
from firnline_domain.records.events import RewriteConflicted
from firnline_domain.records.results import Mode
from firnline_fuzz.fixtures import fuzz_bench as service_bench
from firnline_fuzz.fixtures import fuzz_jvm, fuzz_shelf
from firnline_fuzz.maker import Maker, append, change, erase
from firnline_fuzz.shapes import SHAPES
from firnline_fuzz.trials import Trial
from firnline_iceberg.scan.planning import live_files
from firnline_standalone.bootstrap import keep_apart
from firnline_worker.rewrite import eligibility
from firnline_worker.rewrite.eligibility import HANDED_OVER, REFUSED
from py4j import java_gateway
from pyiceberg.types import GeographyType, NestedField

from tests.kit.long_run import mark_long
from tests.kit.run_committer import RunCommitter
from tests.kit.run_worker import RunWorker, TaskEnded

__all__ = ["fuzz_jvm", "fuzz_shelf", "service_bench"]

pytestmark = [pytest.mark.spark, pytest.mark.stack]
ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/reference/compatibility.md").read_text()
ROW = re.compile(r"^\| ([^|]+) \| (v[^|]+) \| ([^|]+) \|$", re.MULTILINE)
ELSEWHERE = {
    "services/worker/tests/test_handlers.py": (
        "paused",
        "deadline_passed",
    ),
    "libs/iceberg/tests/test_catalogs.py": ("unknown_catalog",),
    "tests/integration/test_prefixes.py": ("unknown_prefix",),
    "tests/integration/worker/test_worker_preconditions.py": (
        "already_committed",
        "trigger_gone",
        "ref_gone",
    ),
    "tests/integration/worker/test_worker_handover.py": (
        "unsafe_property",
        "outside_locations",
        "duplicate_files",
        "unusable_property",
    ),
    "services/worker/tests/table_actions/test_expire_snapshots.py": (
        "snapshots_hidden",
        "metadata_of_another",
    ),
    "libs/iceberg/tests/storage/test_paths.py": ("unclear_path",),
    "libs/iceberg/tests/removal/test_file_ownership.py": ("link_in_location",),
    "tests/integration/worker/test_coverage_matrix.py": (
        "snapshot_gone",
        "type_geography",
    ),
    "tests/integration/worker/test_streaming_readers.py": ("streaming_readers",),
    "tests/integration/worker/test_worker_rewrite.py": ("keys_do_not_add_up",),
    "libs/iceberg/tests/table/test_catalog_client.py": ("format_version_4",),
    "libs/iceberg/tests/java/test_java_failures.py": (
        "java_failed",
        "lost_race",
    ),
}
"""Codes that no row of the page has, by the module that tests them."""
FAR = {"no partition column, far date", "unknown transform"}  # Spark cannot show them
UNMASKED = {"v1 table", "no deletes", "required, no value"}


@dataclass(frozen=True)
class Case:
    shape: str
    arguments: tuple[str, ...]
    version: int
    mode: str
    code: str | None

    def __str__(self) -> str:
        return f"{self.shape} {'/'.join(self.arguments)} v{self.version}"


@pytest.fixture(params=mark_long(("service", "run"), but=("service",)))
def fuzz_bench(request, service_bench, fuzz_jvm):
    """The services' parts, and `firnline run` with the same parts in one process."""
    if request.param == "service":
        yield service_bench
        return
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(java_gateway, "get_return_value", java_gateway.get_return_value)
        keep_apart(fuzz_jvm)
        yield replace(
            service_bench, worker=RunWorker, handlers=RunCommitter(service_bench.handlers)
        )


def cases() -> Iterator[Case]:
    for row, tables, served in ROW.findall(PAGE):
        shape, _, text = row.partition(": ")
        arguments = tuple(text.split(" / ")) if text else ()
        mode, _, code = served.replace("d o", "d_o").replace("`", "").partition(" ")
        for table in tables.split(", "):
            yield Case(shape, arguments, int(table[1:]), mode, code or None)


CASES = list(cases())
FIRST = {(case.mode, case.code): case for case in reversed(CASES)}.values()  # of each outcome


@dataclass
class Asked:
    """The handover, and for which reasons it was called."""

    handover: Any
    reasons: list[str]

    def rewrite_data_files(self, order, table, reason):
        self.reasons.append(reason)
        return self.handover.rewrite_data_files(order, table, reason)


def test_every_code_has_a_row_and_every_row_a_code():
    told = {case.code for case in CASES if case.mode != "refused"} - {None}
    refused = {case.code for case in CASES if case.mode == "refused"}
    elsewhere = {code: path for path, codes in ELSEWHERE.items() for code in codes}
    assert told | (set(elsewhere) & set(HANDED_OVER)) == set(HANDED_OVER)
    assert refused | (set(elsewhere) & set(REFUSED)) == set(REFUSED)
    for code, path in elsewhere.items():
        assert code in (ROOT / path).read_text()


def test_every_shape_has_a_row():
    assert {case.shape for case in CASES} == set(SHAPES)


@pytest.mark.parametrize("case", mark_long(CASES, but=FIRST), ids=str)
def test_a_row(fuzz_bench, case):
    make = Maker(fuzz_bench.jvm, fuzz_bench.catalog, fuzz_bench.namespace, case.version)
    table = SHAPES[case.shape](make, *case.arguments)
    asked = Asked(fuzz_bench.rewriter.handover, [])
    bench = replace(fuzz_bench, rewriter=replace(fuzz_bench.rewriter, handover=asked))
    trial = Trial(bench, table, unseen_by_spark(table, case))
    if case.mode == "refused":
        return refused(trial, case)
    refs = ["main", "side"] if case.shape == "branch" else ["main"]
    if case.mode == "fails":
        return fails(trial, case, asked)
    masked = 0
    for ref in refs:
        for scope in trial.scopes(ref):
            masked += whole(trial, ref, scope, case)
    assert set(asked.reasons) == ({case.code} if case.code else set())
    assert case.mode != "native" or masked or case.shape in UNMASKED
    return None


def unseen_by_spark(table, case):
    kinds = str(table.schema()) if case.mode != "refused" else ""
    return "_ns'" in kinds or "'time'" in kinds or case.shape in FAR


def whole(trial, ref, scope, case):
    """Rewritten, committed, compared; rows that deletes had hidden."""
    before = trial.before(ref)
    assert before, "a table without rows shows nothing"
    result = trial.run(ref, scope)
    assert result.mode is Mode[case.mode.upper()] or not result.groups
    assert result.handover_reason == (case.code if result.mode is Mode.HANDED_OVER else None)
    for event in trial.bench.handlers.handle([result]):
        assert not isinstance(event, RewriteConflicted), event
    trial.compare(ref, before, str(case))
    return sum(group.rows_masked for group in result.groups)


def fails(trial, case, asked):
    """Iceberg cannot either; the table stays as it was."""
    location = trial.table.java.operations().current().metadataFileLocation()
    (scope,) = trial.scopes("main")
    with pytest.raises((TaskRefused, TaskEnded)) as caught:
        trial.run("main", scope)
    assert getattr(caught.value, "reason", case.code) == case.code
    assert asked.reasons == [case.code]
    assert trial.table.java.operations().current().metadataFileLocation() == location


def refused(trial, case):
    """Neither is tried."""
    scope = Scope(0, "[]")
    with pytest.raises(TaskRefused) as caught:
        trial.run("main", scope)
    assert caught.value.reason == case.code


def test_a_snapshot_that_is_gone(fuzz_bench):
    table = SHAPES["no deletes"](Maker(fuzz_bench.jvm, fuzz_bench.catalog, fuzz_bench.namespace, 2))
    with pytest.raises(TaskRefused) as caught:
        live_files(fuzz_bench.tables.load(table.name), 1)
    assert caught.value.reason == "snapshot_gone"


A, B, C, D = b"a", b"b", b"c", b"d"
LOW, HIGH = UUID(int=0), UUID(int=2**128 - 1)


@pytest.mark.parametrize(
    ("kind", "rows", "dead", "seen", "left"),
    [
        ("fixed[1]", [A, B, C, D, None], [A, B, C], 4, 2),  # takes the last key for all
        ("uuid", [LOW, HIGH], [LOW], 2, 1),  # compares bounds as signed: skips the delete file
    ],
)
def test_what_iceberg_misreads_is_applied_as_written(fuzz_bench, kind, rows, dead, seen, left):
    """Where this fails at `seen`, Iceberg has fixed it: docs/reference/compatibility.md and the
    fuzzer's `_misread` and uuids have an exception less."""
    make = Maker(fuzz_bench.jvm, fuzz_bench.catalog, fuzz_bench.namespace, 2)
    table = make.table({"k": kind})
    append(table, *[(one,) for one in rows])
    erase(table, [1], [(one,) for one in dead])
    trial = Trial(fuzz_bench, table, exotic=False)
    assert len(trial.before("main")) == seen
    (scope,) = trial.scopes("main")
    fuzz_bench.handlers.handle([trial.run("main", scope)])
    assert len(trial.seen("main")) == left


@pytest.fixture
def uncached(fuzz_bench):
    """Iceberg keeps the deletes of an earlier query for as long as the JVM has not collected it."""
    cache = "spark.sql.iceberg.executor-cache.enabled"
    fuzz_bench.spark.conf.set(cache, "false")
    yield fuzz_bench
    fuzz_bench.spark.conf.unset(cache)


def test_a_nested_key_that_iceberg_does_not_read_is_applied_as_written(uncached):
    """To Iceberg it is NULL in every row then, in the delete file, too. Where this fails before the
    rewrite, that is fixed: docs/reference/compatibility.md and the fuzzer's `kept` have an
    exception less."""
    table = SHAPES["key in a struct"](Maker(uncached.jvm, uncached.catalog, uncached.namespace, 2))
    trial = Trial(uncached, table, exotic=False)
    assert len(trial.before("main")) == 3
    name = f"lake.{table.name.namespace[0]}.{table.name.name}"
    assert not uncached.spark.sql(f"SELECT id FROM {name}").collect()
    change(table, lambda fields: fields.pop())
    assert not trial.before("main")
    (scope,) = trial.scopes("main")
    uncached.handlers.handle([trial.run("main", scope)])
    assert len(trial.seen("main")) == 3


def test_a_geography_that_pyiceberg_can_read():
    """Java's spelling it cannot, so no table gets this far yet."""
    field = NestedField(1, "g", GeographyType())
    assert list(eligibility._field_obstacles((field,))) == ["type_geography"]
