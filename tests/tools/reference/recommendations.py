"""The recommendations: when each rule applies, with the limits of the code, and what to do."""

from __future__ import annotations

from firnline_domain.advice import layout, snapshots, sorting, workers, writers
from firnline_domain.advice.finding import size_text
from firnline_domain.advice.rules import RULES

from tests.tools.reference.markdown import table

RULE_TEXTS = {
    "unknown_settings": (
        "A `firnline.*` property of the table or namespace does not exist.",
        "Correct the name. The message contains the nearest one.",
    ),
    "unreadable_settings": (
        "A value is invalid and ignored. An invalid window stops the table's maintenance.",
        "Correct the value.",
    ),
    "contradictory_settings": (
        "Values contradict each other or make no sense, for example a window within a blackout, "
        "two retentions, a retention with `gc.enabled=false`, or thresholds of 0.",
        "Change one of them.",
    ),
    "broken_rules": (
        "The table breaks a [rule](properties.md#rules-by-pattern) of `firnline.toml`.",
        "Change the table, or the rule.",
    ),
    "unknown_group": (
        "`firnline.group` names a group that `FIRNLINE_GROUPS` does not contain. Tasks go to the "
        "default group.",
        "Add the group or correct the name.",
    ),
    "duplicate_files": (
        "A data or delete file is in the table twice. Nothing is rewritten, because files are "
        "removed by path and rows would be lost.",
        "Delete the file from the table and append it once, or roll back. Then run "
        "`firnline unpark TABLE`.",
    ),
    "odd_numbers": (
        "A file has a row count or size above 2^53. It counts as 0, and tasks that read it are "
        "refused (`metadata_unreadable`).",
        "Write the file again with another engine, or roll back.",
    ),
    "tiny_partitions": (
        f"{layout.TINY_PARTITIONS} partitions or more, {layout.TINY_SHARE:.0%} of them below an "
        "eighth of the target file size.",
        "Partition more coarsely.",
    ),
    "huge_partitions": (
        f"{layout.HUGE_TARGETS} files of the target size per partition on average.",
        "Partition more finely.",
    ),
    "skewed_partitions": (
        f"{layout.SKEW_PARTITIONS} partitions or more, the largest with {layout.SKEW:g} times the "
        f"average and {layout.SKEW_TARGETS} files of the target size.",
        "Add a bucket of a column with many values.",
    ),
    "position_deletes_in_v2": (
        f"Format v2, {layout.POSITION_DELETE_FILES} position-delete files or more, and at least "
        f"{layout.POSITION_DELETE_SHARE:.0%} as many as data files.",
        "Upgrade to format v3, which has deletion vectors.",
    ),
    "global_deletes": (
        f"{layout.GLOBAL_DELETES} equality-delete files without a partition apply to every "
        "partition.",
        "Delete by keys that contain the partition columns.",
    ),
    "file_format": (
        "`write.format.default` is Avro or ORC.",
        "Set it to `parquet`.",
    ),
    "codec": (
        f"`write.parquet.compression-codec` is {' or '.join(layout.POOR_CODECS)}, on "
        f"{size_text(layout.CODEC_BYTES)} or more.",
        "Set it to `zstd`.",
    ),
    "missing_sort_order": (
        f"{sorting.SCANS:g} scans per day, and {sorting.SCANS_SHARE:.0%} of all, filter by a "
        "column that the table is neither partitioned nor sorted by, and read more than "
        f"{sorting.FILES_READ:.0%} of its files. The table has {sorting.DATA_FILES} data files or "
        f"more, and {sorting.TARGETS:g} of the target size in the average partition.",
        "Set `firnline.sort`.",
    ),
    "frequent_commits": (
        f"{writers.COMMITS} commits of writers per hour, each with less than an eighth of the "
        "target file size.",
        "Commit less often.",
    ),
    "metadata_files_kept": (
        f"{writers.METADATA_COMMITS} commits of writers per hour, and "
        "`write.metadata.delete-after-commit.enabled` is not `true`.",
        "Set `firnline.metadata.previous-versions-max`.",
    ),
    "copy_on_write": (
        f"{writers.OVERWRITES} commits per hour replace data files, and "
        f"{writers.RETURNED_SHARE:.0%} of the rows are the same.",
        "Use merge-on-read if few rows change.",
    ),
    "equality_delete_promise": (
        "`firnline.equality-deletes.max-age-ms` cannot be met: tasks take too long, a delete is "
        "older, or deletes have no partition in a partitioned table.",
        "Commit deletes less often, use smaller partitions or more cores, or raise the limit. "
        "Delete by keys that contain the partition columns.",
    ),
    "write_conflicts": (
        f"{writers.CONFLICTS} results per hour, and {writers.CONFLICT_SHARE:.0%} of all, are "
        "refused because of writers.",
        "Set a window, a longer `firnline.rewrite.hot-ms`, or use merge-on-read.",
    ),
    "waiting_orders": (
        f"A task has waited {workers.WAITING_MINUTES} minutes, and no worker has started it.",
        "Start workers of its group. `/api/workers` shows how many are needed.",
    ),
    "slow_rewrites": (
        f"{workers.SLOW} rewrites per hour, and {workers.SLOW_SHARE:.0%} of all, took over a "
        "minute and four times as long as estimated.",
        "Check what the workers share cores, storage and memory with. If only one table is slow, "
        "its rows are very wide or its codec is expensive.",
    ),
    "many_snapshots": (
        f"{snapshots.SNAPSHOTS:,} snapshots or more.",
        "Lower the retention, or change what keeps them: "
        "`history.expire.min-snapshots-to-keep`, `gc.enabled`, `firnline.enabled`.",
    ),
    "many_manifests": (
        f"{snapshots.MANIFESTS} manifests or more, below {snapshots.MANIFEST_BYTES >> 20} MiB on "
        "average.",
        "Let writers merge them (`commit.manifest-merge.enabled`), or set "
        "`firnline.manifests.min-count`.",
    ),
    "large_metadata": (
        f"The table's `metadata.json` has {snapshots.METADATA_BYTES >> 20} MiB or more.",
        "Expire snapshots if they are at least half of it (about 1 kB each). Otherwise set "
        "`firnline.metadata.previous-versions-max`.",
    ),
    "expiry_announced": (
        "Snapshots and files will be deleted for the first time, after `firnline.expire.grace-ms`.",
        "None. `firnline.expire.enabled=false` stops it, `true` starts it now.",
    ),
    "external_files": (
        "The table has, or had, files outside its own locations (`add_files`), or `migrated=true` "
        "or `snapshot=true`. Nothing is expired or removed.",
        "Set `firnline.expire.enabled=true` on the table itself if no other table uses the files.",
    ),
    "held_snapshots": (
        f"{snapshots.FRUITLESS} expiries in a row found nothing, and the oldest snapshot is "
        f"{snapshots.HELD_RETENTIONS:g} times as old as the retention.",
        "Remove tags and branches. Unset `firnline.streaming-readers` if no stream is read.",
    ),
}


def list_rules() -> str:
    """Return the table of all rules. Fails for a rule without a text."""
    return table(
        "recommendation | applies if | what to do",
        (f"`{rule}` | {' | '.join(RULE_TEXTS[rule])}" for rule in RULES),
    )
