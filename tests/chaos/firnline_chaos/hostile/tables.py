"""The tenant's own table: its properties, and what it puts beside its metadata files."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

import requests
from firnline_iceberg.outputs.names import LIST_SUFFIX, TaskRun
from firnline_iceberg.storage.paths import PREFIX

from tests.kit.lake.writer import local

NAMESPACE = "hostile"
NUMBERS = ("0", "-1", "1", "1e309", "NaN", "", " ", "9" * 30, "1_000", "0x10", "\u0661", "\xff")
NAMES = (
    "write.target-file-size-bytes",
    "write.parquet.row-group-size-bytes",
    "write.parquet.page-size-bytes",
    "history.expire.max-snapshot-age-ms",
    "history.expire.min-snapshots-to-keep",
    "firnline.rewrite.min-fragments",
    "firnline.rewrite.quiet-ms",
    "firnline.rewrite.cool-down-ms",
    "firnline.rewrite.deadline-ms",
    "firnline.expire.min-interval-ms",
)
CLASSES = {
    "py-io-impl": "firnline_chaos.hostile.never_imported.Io",
    "write.location-provider.impl": "com.example.NoSuchProvider",
    "s3.endpoint": "http://127.0.0.1:9",
    "s3.proxy-uri": "http://127.0.0.1:9",
    "write.data.path": "file:///etc",
    "write.metadata.path": "file:///etc",
}


SCHEMA = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "id", "required": False, "type": "long"},
        {"id": 2, "name": "v", "required": False, "type": "string"},
    ],
}


def create(uri: str, name: str) -> dict[str, Any]:
    """Make the table, if it is not there, and take hostile classes off it; its name as records have
    it. All by plain requests: PyIceberg would believe the properties. Raises HTTPError."""
    _post(f"{uri}/v1/namespaces", {"namespace": [NAMESPACE]}, made_already=True)
    wanted = {"name": name, "schema": SCHEMA}
    _post(f"{uri}/v1/namespaces/{NAMESPACE}/tables", wanted, made_already=True)
    update(uri, name, action="remove-properties", removals=[*CLASSES, "note"])
    return {
        "uuid": str(_metadata(uri, name)["table-uuid"]), "namespace": [NAMESPACE], "name": name,
    }  # fmt: skip


def update(uri: str, name: str, **change: Any) -> None:
    """One change of metadata. Raises HTTPError."""
    _post(f"{uri}/{_path(name)}", {"requirements": [], "updates": [change]})


def location(uri: str, name: str) -> str:
    """The table's folder. Raises HTTPError where it is gone."""
    return str(_metadata(uri, name)["location"])


def _metadata(uri: str, name: str) -> dict[str, Any]:
    answer = requests.get(f"{uri}/{_path(name)}", timeout=30)
    answer.raise_for_status()
    return dict(answer.json()["metadata"])


def _post(url: str, body: dict[str, Any], made_already: bool = False) -> None:
    answer = requests.post(url, json=body, timeout=30)
    if not (made_already and answer.status_code == HTTPStatus.CONFLICT):
        answer.raise_for_status()


def _path(name: str) -> str:
    return f"v1/namespaces/{NAMESPACE}/tables/{name}"


def properties(dice: random.Random) -> dict[str, str]:
    """Some to set; every number and class that something of ours reads."""
    found = {name: dice.choice(NUMBERS) for name in dice.sample(NAMES, 3)}
    if dice.random() < 0.3:
        name = dice.choice(list(CLASSES))
        found[name] = CLASSES[name]
    if dice.random() < 0.1:
        found["note"] = "n" * 2_400_000
    return found


def forge_list(location: str, table_key: str, victims: Sequence[str], dice: random.Random) -> Path:
    """Write a write-ahead list that names files of others; the path of the list."""
    folder = local(location) / "metadata"
    folder.mkdir(parents=True, exist_ok=True)
    task = f"{dice.getrandbits(128):032x}"
    body: dict[str, Any] = {
        "task_id": task,
        "attempt": 1,
        "table_key": table_key,
        "worker": "worker-1",
        "written_at_ms": dice.choice((1, -1, int(time.time() * 1000) - 10**9)),
        "outputs": list(victims),
        "deadline_ms": dice.choice((0, 1, -1)),
    }
    for name in dice.sample(list(body), dice.randint(0, 2)):
        body[name] = dice.choice((None, [], {}, "x" * 5_000, -1, 2**70))
    data = dice.choice((json.dumps(body).encode(), json.dumps(body).encode(), b"\xff\xfe{", b""))
    run = TaskRun(table_key, task, 1, f"{dice.getrandbits(32):08x}")
    path = folder / dice.choice((run.list_name, f"{PREFIX}{task}-1-{run.run}{LIST_SUFFIX}"))
    path.write_bytes(data)
    return path
