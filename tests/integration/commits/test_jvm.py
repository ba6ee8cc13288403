"""The small JVM: calls in both directions, and its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import weakref
from pathlib import Path
from typing import Any

import psutil
import pytest
from firnline_domain.errors import HeapTooSmall, Misconfigured
from firnline_domain.identity import TableName
from firnline_iceberg.java import errors as java_errors
from firnline_iceberg.java.api import content_file, content_file_json, load_table, rest_catalog
from firnline_iceberg.java.jvm import IcebergJvm, JvmEnded
from firnline_iceberg.java.loops import CHUNK, JavaLoops
from firnline_iceberg.java.names import JavaNames
from py4j.protocol import Py4JJavaError
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.types import LongType, NestedField, TimestampType

pytestmark = pytest.mark.stack

HOLDER = """
import sys, time
from pathlib import Path
from firnline_iceberg.java.jvm import IcebergJvm
running = IcebergJvm(Path(sys.argv[1]))
print(running.pid, flush=True)
time.sleep(600)
"""


class Even:
    """A Java predicate in Python."""

    def test(self, value: int) -> bool:
        return value % 2 == 0

    class Java:
        implements = ("java.util.function.Predicate",)


def test_java_calls_back_on_the_same_thread(iceberg: IcebergJvm) -> None:
    numbers: Any = iceberg.jvm.java.util.ArrayList()
    for number in range(5):
        numbers.add(number)
    numbers.removeIf(Even())
    assert list(numbers) == [1, 3]


def test_python_releases_what_java_has_called_back(iceberg: IcebergJvm) -> None:
    """A commit is such an object, and holds its table."""
    numbers: Any = iceberg.jvm.java.util.ArrayList()
    called = [Even() for _ in range(20)]
    for one in called:
        numbers.removeIf(one)
    held = [weakref.ref(one) for one in called]
    del called, one
    for _ in range(100):
        iceberg.jvm.java.lang.System.gc()
        if not any(ref() for ref in held):
            return
        time.sleep(0.1)
    pytest.fail(f"{sum(ref() is not None for ref in held)} are still held")


def test_a_name_is_looked_up_once(iceberg: IcebergJvm, monkeypatch: pytest.MonkeyPatch) -> None:
    client = iceberg.jvm._gateway_client
    send, sent = client.send_command, list[str]()

    def count_and_send(command: str, *args: Any, **named: Any) -> Any:
        sent.append(command)
        return send(command, *args, **named)

    monkeypatch.setattr(client, "send_command", count_and_send)
    names = JavaNames(iceberg.jvm._found)
    for _ in range(3):
        names.java.lang.System.nanoTime()
    assert len(sent) == len(set(sent)) + 2  # the call itself alone is sent again


def test_a_table_and_its_content_files(
    iceberg: IcebergJvm, lake: RestCatalog, catalog_uri: str, namespace: str
) -> None:
    schema = Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "at", TimestampType(), required=True),
    )
    spec = PartitionSpec(
        PartitionField(2, 1000, DayTransform(), "day"),
        PartitionField(1, 1001, IdentityTransform(), "id"),
    )
    made = lake.create_table((namespace, "t.with dot"), schema, partition_spec=spec)
    table = TableName(str(made.metadata.table_uuid), (namespace,), "t.with dot")
    java = load_table(iceberg.jvm, rest_catalog(iceberg.jvm, catalog_uri), table)
    text = (
        '{"spec-id":0,"content":"data","file-path":"file:///x.parquet","file-format":"parquet",'
        '"partition":["2026-01-01",3],"file-size-in-bytes":10,"record-count":1}'
    )
    back = content_file(iceberg.jvm, java, text)
    assert back.partition().toString() == "PartitionData{day=20454, id=3}"
    assert '"record-count":1' in content_file_json(iceberg.jvm, java, back)


def test_many_files_become_java_objects_in_loops_of_javas(
    iceberg: IcebergJvm, lake: RestCatalog, catalog_uri: str, namespace: str
) -> None:
    """More than go to Java at once, of both kinds; the last one is alone in its text."""
    made = lake.create_table((namespace, "t"), Schema(NestedField(1, "id", LongType())))
    table = TableName(str(made.metadata.table_uuid), (namespace,), "t")
    java = load_table(iceberg.jvm, rest_catalog(iceberg.jvm, catalog_uri), table)
    kinds = [("data", "equality-deletes")[number % 3 == 0] for number in range(CHUNK + 1)]
    texts = [
        f'{{"spec-id":0,"content":"{kind}","file-path":"file:///{number}","file-format":"parquet",'
        '"partition":[],"equality-ids":[1],"file-size-in-bytes":10,"record-count":1}'
        for number, kind in enumerate(kinds)
    ]
    loops = JavaLoops(iceberg.jvm)
    files = loops.content_files(java.specs(), texts)
    assert [one.location() for one in files] == [f"file:///{number}" for number in range(CHUNK + 1)]
    again = [content_file_json(iceberg.jvm, java, one) for one in (files[0], files[CHUNK])]
    first, last = (content_file(iceberg.jvm, java, texts[at]) for at in (0, CHUNK))
    assert again == [content_file_json(iceberg.jvm, java, one) for one in (first, last)]
    change = java.newRowDelta()
    loops.call_for_each(change, "RowDelta", "addRows", files, "DataFile")
    loops.call_for_each(change, "RowDelta", "addDeletes", files, "DeleteFile")
    change.commit()
    summary = lake.load_table((namespace, "t")).metadata.snapshots[-1].summary
    assert summary is not None
    counts = [summary["added-data-files"], summary["added-equality-delete-files"]]
    assert counts == [str(sum(one == kind for one in kinds)) for kind in sorted({*kinds})]


def test_it_ends_with_its_parent(iceberg_jar: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(iceberg_jar)], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    with parent.stdout as out:
        child = psutil.Process(int(out.readline()))
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    _, alive = psutil.wait_procs([child], timeout=20)
    assert not alive


def test_a_jvm_that_was_killed_is_noticed(iceberg_jar: Path) -> None:
    with IcebergJvm(iceberg_jar) as running:
        os.kill(running.pid, signal.SIGKILL)
        psutil.wait_procs([psutil.Process(running.pid)], timeout=20)
        with pytest.raises(JvmEnded), running.watch():
            running.jvm.java.lang.System.currentTimeMillis()


def test_a_missing_jar_is_said(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="FIRNLINE_ICEBERG_JAR"):
        IcebergJvm(tmp_path / "none.jar")


def test_memory_that_does_not_suffice_is_not_told_as_the_catalogs_fault(
    iceberg: IcebergJvm,
) -> None:
    with pytest.raises(Py4JJavaError) as caught:
        iceberg.jvm.java.util.ArrayList(2**31 - 1)
    told = java_errors.catalog_unreachable(caught.value, "lake")
    assert isinstance(told, HeapTooSmall)
    assert "FIRNLINE_HEAP_BYTES" in str(told)
    assert "lake" not in str(told)
