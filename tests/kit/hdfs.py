"""Hadoop's own mini cluster on this machine: a name node and a data node in one JVM, from Maven's
artifacts. And the reference catalog with its warehouse there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow.fs as pafs
from firnline_iceberg.storage.arrow_file_io import LakeFileIO
from firnline_local.processes.command import Command
from firnline_local.processes.ports import LOOPBACK, free_port
from firnline_local.processes.process import run_process
from firnline_local.servers import catalog
from firnline_local.servers.artifacts import PinnedArtifact, cache_root, fetch_pins, join_class_path
from firnline_local.servers.java import find_java
from firnline_local.servers.repository import repository_root

JARS = (  # beside the client's, which the catalog has as well
    PinnedArtifact("ae2406c544825b7734b8aad4f87eff60d9ec422284f0b16c2856032083b63c77",
        "org/apache/hadoop/hadoop-client-minicluster/3.4.2/hadoop-client-minicluster-3.4.2.jar"),
    PinnedArtifact("8e495b634469d64fb8acfa3495a065cbacc8a0fff55ce1e31007be4c16dc57d3",
        "junit/junit/4.13.2/junit-4.13.2.jar"),
    PinnedArtifact("66fdef91e9739348df7a096aa384a5685f4e875584cce89386a7a47251c4d8e9",
        "org/hamcrest/hamcrest-core/1.3/hamcrest-core-1.3.jar"),
)  # fmt: skip
MAIN = "org.apache.hadoop.mapreduce.MiniHadoopClusterManager"
UP_S = 300.0


@contextmanager
def hdfs(folder: Path) -> Iterator[str]:
    """Its address, `hdfs://HOST:PORT`, once a file can be written."""
    port = free_port()
    uri, folder = f"hdfs://{LOOPBACK}:{port}", folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    jars = ":".join(
        [join_class_path("catalog"), *map(str, fetch_pins(JARS, cache_root(), repository_root))]
    )
    web = free_port(frozenset({port}))
    argv = (
        *(find_java(), "-Xmx256m", "-XX:+UseSerialGC", "-cp", jars, MAIN),
        *("-nomr", "-format", "-datanodes", "1", "-nnport", str(port), "-nnhttpport", str(web)),
    )
    with run_process(
        Command("hdfs", argv, folder, lambda: _takes_files(uri)), folder / "log", UP_S
    ):
        yield uri


def _takes_files(uri: str) -> bool:
    try:
        with LakeFileIO({}).new_output(f"{uri}/probe").create(overwrite=True) as sink:
            sink.write(b"x")
    except OSError:
        return False
    return True


def files(uri: str) -> pafs.FileSystem:
    """All of it, by our own client."""
    return LakeFileIO({}).fs_by_scheme("hdfs", uri.removeprefix("hdfs://"))


@contextmanager
def catalog_on(uri: str, folder: Path) -> Iterator[str]:
    """The embedded catalog, whose tables lie there; its address."""
    port = free_port()
    plain = catalog.command(folder, port)

    def prepare() -> None:
        plain.prepare()
        file = folder / "catalog.xml"
        entry = rf"\g<1>{uri}/wh\g<2>"
        text = re.sub(r"(<Item>warehouse</Item><Item>)[^<]*(</Item>)", entry, file.read_text())
        file.write_text(text)

    with run_process(replace(plain, prepare=prepare), folder / "catalog.log"):
        yield catalog.uri(port)
