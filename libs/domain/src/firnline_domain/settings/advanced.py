"""Table properties that few tables need, each with the reason why one would set it.

The others of `PROPERTIES` are the ten that people set.
"""

from __future__ import annotations

ADVANCED = {
    "firnline.rewrite.min-equality-deletes": "readers of a streaming upsert table need another "
    "balance of their time and rewriting",
    "firnline.rewrite.min-position-deletes": "the same for tables of DELETE, UPDATE and MERGE",
    "firnline.rewrite.max-age-ms": "small debt may lie longer, or not so long",
    "firnline.rewrite.quiet-ms": "a writer's bursts have longer pauses than a second",
    "firnline.rewrite.hot-ms": "a writer of DELETE, UPDATE or MERGE bypasses the gateway and fails "
    "on rewrites",
    "firnline.rewrite.hot-max-ms": "the same writer never pauses, and its debt may grow longer",
    "firnline.rewrite.cool-down-ms": "a partition shall be rewritten more rarely",
    "firnline.rewrite.deadline-ms": "rewrites take longer than half an hour",
    "firnline.rewrite.slice-ms": "one order shall take less of a large partition, or more",
    "firnline.rewrite.max-in-flight": "one table shall take less of the workers, or more",
    "firnline.yield-ms": "another maintainer of the table has a rhythm of its own",
    "firnline.rewrite.max-size-error": "readers mind uneven file sizes less, or more",
    "firnline.rewrite.cheap-bytes": "storage charges so much per request, or so little, that small "
    "rewrites are to be weighed too, or larger ones not",
    "firnline.rewrite.convert": "readers cannot use deletion vectors, or equality deletes have to "
    "go at any price",
    "firnline.rewrite.heavy-bytes": "ordinary workers have less memory, or more",
    "firnline.rewrite.payback": "compute is dearer than readers' time, or cheaper",
    "firnline.reads-per-hour": "readers report nothing, and their rate is known",
    "firnline.reads-from": "all readers report, or reports are not to be believed",
    "firnline.rewrite.max-wait-ms": "a table is read so rarely that debt may wait for days",
    "gc.enabled": "another table shares the files: Iceberg's own switch",
    "history.expire.max-snapshot-age-ms": "Iceberg's own setting is there already",
    "history.expire.min-snapshots-to-keep": "Iceberg's own setting is there already",
    "firnline.expire.grace-ms": "owners need longer than a day to object",
    "firnline.expire.min-interval-ms": "snapshots are many, and storage is dear",
}
WHY_OF_WORKERS = {
    "firnline.rewrite.hold-off-ms": "branches are published later than an hour after their commits",
    "firnline.rewrite.max-span-ms": "readers filter an unpartitioned table by time",
}
