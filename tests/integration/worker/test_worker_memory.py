"""Each way in which memory ends, brought about in a session like the worker's."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.spark

SCRIPT = """
import json, os, signal, sys
import pyarrow as pa
from firnline_worker.host.out_of_memory import is_out_of_memory, exhausted_memory
from firnline_worker.settings import WorkerSettings
from firnline_worker.spark.session import start_session

spark = start_session(WorkerSettings(
    kafka="", redis="", catalog_uri="http://127.0.0.1:1", iceberg_jar=sys.argv[1],
    state_dir=sys.argv[2], spark_master="local[1]", heap_bytes=512 << 20,
))

def in_a_group(act):
    def run(_):
        act()
        yield 1
    spark.sparkContext.parallelize([1], 1).mapPartitions(run).collect()

def python():
    raise MemoryError

def arrow():
    pa.allocate_buffer(1 << 61)

def value():
    raise ValueError("MemoryErr")

KINDS = {
    "python": lambda: in_a_group(python),
    "arrow": lambda: in_a_group(arrow),
    "killed": lambda: in_a_group(lambda: os.kill(os.getpid(), signal.SIGKILL)),
    "jvm": lambda: spark._jvm.java.nio.ByteBuffer.allocate(2**31 - 1),
    "here": arrow,
    "crashed": lambda: in_a_group(lambda: os.kill(os.getpid(), signal.SIGSEGV)),
    "value": lambda: in_a_group(value),
}
found = {}
for name, act in KINDS.items():
    try:
        act()
    except BaseException as error:
        found[name] = is_out_of_memory(error) and exhausted_memory(error)
print(json.dumps(found))
print(json.dumps(spark.sparkContext.getConf().get("spark.executor.pyspark.memory")))
spark.stop()
"""


@pytest.fixture(scope="module")
def said(iceberg_jar: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    command = [sys.executable, "-c", SCRIPT, str(iceberg_jar), str(tmp_path_factory.mktemp("s"))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_every_kind_is_told_from_a_plain_error_and_from_a_crash(said):
    assert said[0] == {
        "python": "overhead",
        "arrow": "overhead",
        "killed": "overhead",
        "jvm": "heap",
        "here": "overhead",
        "crashed": False,
        "value": False,
    }


def test_spark_has_no_limit_of_its_own_on_python(said):
    assert said[1] is None
