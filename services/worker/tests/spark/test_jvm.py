"""What the driver's JVM and Spark are told at their start."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from firnline_domain.errors import Misconfigured
from firnline_worker.settings import WorkerSettings
from firnline_worker.spark.jvm import properties_file, spark_options, start_settings


def settings(folder: Path, jar: Path) -> WorkerSettings:
    return WorkerSettings(
        kafka="", redis="", catalog_uri="", iceberg_jar=str(jar), state_dir=str(folder)
    )


def configured(folder: Path, text: str) -> WorkerSettings:
    path = folder / "firnline.toml"
    path.write_text(f"[spark]\n{text}")
    return replace(settings(folder, folder / "iceberg.jar"), config=str(path))


def test_any_spark_property_reaches_spark_by_a_file_of_ours_alone(tmp_path: Path) -> None:
    given = spark_options(configured(tmp_path, "spark.hadoop.fs.s3a.secret.key = 'cAn\\Ary'"))
    words = properties_file(tmp_path, given).split()
    assert words == ["--properties-file", f"{tmp_path}/spark.properties", "--load-spark-defaults"]
    assert Path(words[1]).stat().st_mode & 0o777 == 0o600
    assert Path(words[1]).read_text() == "spark.hadoop.fs.s3a.secret.key=cAn\\\\Ary\n"


def test_what_firnline_decides_is_refused_by_name(tmp_path: Path) -> None:
    text = "spark.task.maxFailures = 4\nspark.executor.memory = '2g'\nspark.master = 'yarn'"
    with pytest.raises(Misconfigured) as caught:
        spark_options(configured(tmp_path, text))
    lines = str(caught.value).splitlines()
    assert [line.split()[2] for line in lines] == ["spark.master:", "spark.task.maxFailures:"]


def on_cluster(folder: Path, text: str) -> WorkerSettings:
    return replace(configured(folder, text), spark_master="spark://there:7077")


def test_on_a_cluster_a_lost_executor_costs_a_try_and_idle_ones_are_given_back(
    tmp_path: Path,
) -> None:
    found = start_settings(on_cluster(tmp_path, "spark.executor.memory = '2g'"))
    assert found["spark.task.maxFailures"] == "3"
    assert found["spark.dynamicAllocation.enabled"] == "true"
    assert "spark.executor.extraClassPath" not in found
    assert "spark.driver.host" not in found


def test_a_clusters_defaults_give_way_to_the_operator(tmp_path: Path) -> None:
    mine = on_cluster(tmp_path, "spark.task.maxFailures = 5\nspark.driver.host = 'worker-1'")
    assert "spark.task.maxFailures" not in start_settings(mine)
    assert spark_options(mine)["spark.task.maxFailures"] == "5"


def test_names_have_one_writer_on_a_cluster_too(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=r"spark\.speculation"):
        spark_options(on_cluster(tmp_path, "spark.speculation = true"))


IMPORT_BESIDE_THE_START = """
import os
from firnline_worker.spark import jvm
os.register_at_fork = lambda **hooks: print(sorted(hooks)) if "before" in hooks else None
from firnline_worker import bootstrap
"""


def test_no_module_that_is_imported_beside_the_jvms_start_locks_a_fork() -> None:
    command = [sys.executable, "-c", IMPORT_BESIDE_THE_START]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == ""
