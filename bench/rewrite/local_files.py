"""Local files as an object store takes them: Hadoop's own local file system starts a `chmod` for
each file that it creates, 12 ms in the worst case here, and a commit beside busy writers makes a
hundred small ones. Java's own call does the same; all sides, writers included, get it.
"""

from __future__ import annotations

from pathlib import Path

from firnline_local.servers.artifacts import PinnedArtifact, cache_root, fetch_pins
from firnline_local.servers.repository import repository_root

BARE = PinnedArtifact(
    "e0cc30fb0531eb0b59468dc0abf5b257533d2365b5e9f45e795edd707aa78c62",
    "com/globalmentor/hadoop-bare-naked-local-fs/0.1.0/hadoop-bare-naked-local-fs-0.1.0.jar",
)
_SETTINGS = """<?xml version="1.0"?>
<configuration><property>
  <name>fs.file.impl</name>
  <value>com.globalmentor.apache.hadoop.fs.BareLocalFileSystem</value>
</property></configuration>
"""


def environment(folder: Path) -> dict[str, str]:
    """For every process whose JVM loads Hadoop; the settings lie in `folder` from then on."""
    settings = folder.absolute() / "hadoop"
    settings.mkdir(parents=True, exist_ok=True)
    (settings / "core-site.xml").write_text(_SETTINGS)
    (jar,) = fetch_pins([BARE], cache_root(), repository_root)
    return {"HADOOP_CONF_DIR": str(settings), "SPARK_DIST_CLASSPATH": str(jar)}
