"""Finds the repository that artifacts are downloaded from.

No address is written here: it is FIRNLINE_MAVEN_ROOT, or what the Ivy inside PySpark (the resolver
behind `spark.jars.packages`) uses as its default Maven 2 root."""

from __future__ import annotations

import os
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from firnline_local.servers.java import find_java


class RepositoryUnknown(RuntimeError):
    """No artifact repository: set FIRNLINE_MAVEN_ROOT to a Maven 2 repository's root."""


def repository_root() -> str:
    """Return the URL of a Maven 2 repository, ending in a slash. Asking Ivy costs one JVM start
    (0.5 s)."""
    root = os.environ.get("FIRNLINE_MAVEN_ROOT") or _ivy_default()
    return root if root.endswith("/") else root + "/"


@lru_cache(maxsize=1)
def _ivy_default() -> str:
    spark = find_spec("pyspark")  # importing it would cost every start 0.7 s
    folders = spark.submodule_search_locations if spark else None
    jars = [jar for folder in folders or () for jar in Path(folder, "jars").glob("ivy-*.jar")]
    if not jars:
        raise RepositoryUnknown("this PySpark carries no Ivy; set FIRNLINE_MAVEN_ROOT")
    port = launch_gateway(classpath=str(jars[0]), die_on_exit=True, java_path=find_java())
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    try:
        return str(gateway.jvm.org.apache.ivy.plugins.resolver.IBiblioResolver.DEFAULT_M2_ROOT)
    finally:
        gateway.shutdown()
