from __future__ import annotations

from pathlib import Path

import pyspark
from firnline_worker.spark.daemon import without_archives

HOME = str(Path(pyspark.__file__).parents[1])


def test_archives_go_where_pyspark_is_installed():
    path = ["/a", "/spark/python/lib/pyspark.zip", "/spark/jars/spark-core.jar", HOME]
    assert without_archives(path) == ["/a", HOME]


def test_they_stay_where_pyspark_is_nowhere_else():
    path = ["/a", "/spark/python/lib/pyspark.zip"]
    assert without_archives(path) == path
