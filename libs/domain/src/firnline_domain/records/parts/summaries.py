"""A snapshot's summary: texts that any writer may have written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from firnline_domain.base.numbers import whole_range
from firnline_domain.base.values import MAX_AMOUNT
from firnline_domain.records.signing import (
    Keyring,
    SignatureRefused,
    read_signature,
    write_signature,
)

REPLACE = "replace"  # Iceberg's operation of a commit that changes no row
PRODUCER, OPTIMIZE = "snapshot.producer", "OPTIMIZE"  # Amoro, which also overwrites
TASK_ID = "firnline.task-id"  # of a snapshot that Firnline committed; ids, comma-separated
BY_VERSION = "firnline.version"  # beside TASK_ID: the version that committed it
SIGNATURE = "firnline.signature"  # of the fleet, over all other properties that begin with OURS
OURS = "firnline."
_PURPOSE = b"snapshot"
_COUNT = whole_range(0, MAX_AMOUNT)
MAX_IDS = 64_000  # characters of task ids: 1,900 results in one commit
# What Firnline, and a person who reads its events, knows of a summary: Iceberg's own counts (spec,
# appendix F) and who made the snapshot.
COUNTS = tuple(
    f"{verb}-{what}"
    for verb in ("added", "deleted", "removed", "total")
    for what in (
        "data-files",
        "delete-files",
        "equality-delete-files",
        "position-delete-files",
        "dvs",
        "records",
        "files-size",
        "position-deletes",
        "equality-deletes",
    )
)
MAKERS = (
    "engine-name",
    "engine-version",
    "app-id",
    "app-name",
    "spark.app.id",
    "trino_query_id",
    "flink.job-id",
    PRODUCER,
)
KNOWN = (
    *COUNTS,
    *MAKERS,
    "wap.id",
    "published-wap-id",
    "source-snapshot-id",
    "replace-partitions",
    "changed-partition-count",
)


def number_in(summary: Mapping[str, str], name: str) -> int:
    """Parse a count of the summary; 0 if it is absent, no number (`²` is a digit, too), below zero
    or beyond any count."""
    return int(_COUNT.parse(str(summary.get(name) or "")) or 0)


def sign_summary(ours: Mapping[str, str], uuid: str, keys: Keyring, at_ms: int) -> dict[str, str]:
    """Return the properties of a snapshot of ours with the deployment's signature, because any
    writer of the table may write the same properties. `uuid`: the table's."""
    signature = keys.sign(at_ms, *_signed_parts(ours, uuid))
    return dict(ours) if signature is None else {**ours, SIGNATURE: write_signature(signature)}


def is_ours(summary: Mapping[str, str], uuid: str, keys: Keyring) -> bool:
    """Return True if the deployment has made a snapshot of that table, by its summary: with signing
    off every snapshot that names a task."""
    if not summary.get(TASK_ID):  # PyIceberg's has every key
        return False
    ours = {key: text for key, text in summary.items() if key.startswith(OURS)}
    if not all(isinstance(text, str) for text in ours.values()):  # JSON has other values, too
        return False
    try:
        keys.verify_parts(
            read_signature(ours.pop(SIGNATURE, None)), 0, None, *_signed_parts(ours, uuid)
        )
    except SignatureRefused:
        return False
    return True


def _signed_parts(ours: Mapping[str, str], uuid: str) -> Iterator[bytes]:
    yield from (_PURPOSE, uuid.encode())
    for key in sorted(ours):
        yield from (key.encode(errors="replace"), ours[key].encode(errors="replace"))


def task_ids_in(summary: Mapping[str, str]) -> str | None:
    """Return the tasks of a snapshot, cut after a whole id if there are more than any commit has;
    None without one."""
    text = summary.get(TASK_ID)
    if text is None or len(text) <= MAX_IDS:
        return text or None
    return text[:MAX_IDS].rpartition(",")[0] or None
