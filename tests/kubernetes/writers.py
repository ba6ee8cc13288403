"""Pods that write tables and verify their rows."""

from __future__ import annotations

import time

import yaml

from tests.kubernetes.cluster import Cluster

NAMESPACE = "firnline"
LAKE = """
from firnline_demo.lake import DemoLake
lake = DemoLake.of_running_fleet()
catalog = lake.writer_catalog(lake.connection.uri)
"""
# Small files in 72 partitions: as many tasks. Three workers complete 24 before a fourth one starts.
BURST = (
    LAKE
    + """
import pyarrow as pa
rows = pa.table({"part": [number % 72 for number in range(7200)], "value": [*range(7200)]})
catalog.create_namespace_if_not_exists("burst")
table = catalog.create_table("burst.TABLE", rows.schema, properties={
    "format-version": "2", "firnline.rewrite.max-in-flight": "72", "firnline.enabled": "false",
})
with table.update_spec() as spec:
    spec.add_identity("part")
for _ in range(12):
    table.append(rows)
with table.transaction() as transaction:
    transaction.set_properties({"firnline.enabled": "true"})
print("written")
"""
)
# Files of 50 MB: more than a worker with 1 GiB can hold beside its JVM.
WIDE = (
    LAKE
    + """
import os
import pyarrow as pa
catalog.create_namespace_if_not_exists("wide")
numbers = range(48_000)
rows = lambda: pa.table({"id": [*numbers], "text": [os.urandom(512).hex() for _ in numbers]})
table = catalog.create_table("wide.texts", rows().schema, properties={
    "write.parquet.compression-codec": "uncompressed", "firnline.enabled": "false",
})
for _ in range(12):
    table.append(rows())
with table.transaction() as transaction:
    transaction.set_properties({"firnline.enabled": "true"})
print("written")
"""
)
READ = (
    LAKE
    + """
table = catalog.load_table("burst.TABLE")
rows = table.scan().to_arrow()
assert sorted(rows["value"].to_pylist()) == sorted([*range(7200)] * 12)
files = len([*table.scan().plan_files()])
assert files == 72, files
print("rows verified")
"""
)


def start_writers(cluster: Cluster, name: str, script: str = "", seconds: str = "60") -> None:
    """Start the pod of `helm test` once more, under another name, or a script in its place."""
    [pod] = [one for one in yaml.safe_load_all(cluster.helm("get", "hooks", NAMESPACE))
             if one["kind"] == "Pod"]  # fmt: skip
    del pod["metadata"]["annotations"]
    pod["metadata"]["name"] = name
    [container] = pod["spec"]["containers"]
    container["args"][container["args"].index("--seconds") + 1] = seconds
    if script:
        container["command"], container["args"] = ["python", "-c"], [script]
    cluster.apply(manifests=yaml.safe_dump(pod), namespace=NAMESPACE)


def wait_for_writers(cluster: Cluster, name: str, timeout_s: float) -> str:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        phase = cluster.kubectl("get", "pod", name, "--output", "jsonpath={.status.phase}")
        if phase in ("Succeeded", "Failed"):
            break
        time.sleep(1)
    output = cluster.kubectl("logs", name)
    assert phase == "Succeeded", f"{phase}: {output}"
    return output


def wait_for_line(cluster: Cluster, name: str, line: str) -> None:
    """Wait until a pod has written this line."""
    deadline = time.monotonic() + 300
    while line not in (output := cluster.run("kubectl", "logs", name, check=False).stdout):
        assert time.monotonic() < deadline, output
        time.sleep(1)
