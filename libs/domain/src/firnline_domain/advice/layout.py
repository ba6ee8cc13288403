"""Advice about how a table's data lies in partitions and files."""

from __future__ import annotations

from firnline_domain.advice.finding import Known, RuleFinding, size_text
from firnline_domain.records.parts.tallies import FRAGMENTS_IN_TARGET

TINY_PARTITIONS = 100  # below, the planning of a read is quick however they are cut
TINY_SHARE = 0.8
HUGE_TARGETS = 256  # files of the target size in a mean partition: 128 GB by Iceberg's default
SKEW = 10.0  # the largest partition against the mean one
SKEW_PARTITIONS = 10
SKEW_TARGETS = 16  # in the largest: below, it is rewritten in a moment anyway
POSITION_DELETE_FILES = 100
POSITION_DELETE_SHARE = 0.5  # of the data files
GLOBAL_DELETES = 10
SLOW_FORMATS = ("avro", "orc")
POOR_CODECS = ("uncompressed", "gzip")
CODEC_BYTES = 1_000_000_000  # below, nothing is gained


def duplicate_files(known: Known) -> RuleFinding | None:
    """Find a file that was added twice: files are removed by path, so every rewrite would lose
    rows."""
    if not (said := known.table.work.duplicate):
        return None
    return RuleFinding(
        f"a file was added to the table twice, so nothing is rewritten: {said}",
        "its rows count twice, and removing one of the two entries removes both: delete the file "
        "from the table and append it once, or roll back to before it was added again; then "
        f"`firnline unpark {known.table.counters.table.dotted_name}`",
        lead=1,
    )


def odd_numbers(known: Known) -> RuleFinding | None:
    """Find files whose numbers are impossible: their content is unknown, so a rewrite cannot prove
    its rows."""
    if not (files := known.table.counters.odd_files):
        return None
    claims = "file claims" if files == 1 else "files claim"
    return RuleFinding(
        f"{files:,} {claims} more rows or bytes than any file has (record_count or "
        "file_size_in_bytes above 2^53): they count as 0, and what reads them is refused "
        "(metadata_unreadable)",
        "find the writer of these manifests; write the files anew with another engine, or roll "
        "back to before they were added",
        {"files": files},
        lead=files,
    )


def tiny_partitions(known: Known, ease: float) -> RuleFinding | None:
    """Find many partitions of less than a small file: no rewrite helps, because what is in one
    partition stays too small."""
    spread = known.spread
    share = spread.tiny / max(spread.partitions, 1)
    if spread.partitions < TINY_PARTITIONS * ease or share < TINY_SHARE * ease:
        return None
    least = size_text(known.target_bytes / FRAGMENTS_IN_TARGET)
    return RuleFinding(
        f"{share:.0%} of {spread.partitions:,} partitions hold less than {least}, "
        "so that no rewrite can make files of a good size",
        "partition more coarsely: by day instead of hour, by fewer buckets, by one column less; "
        "data that is there moves with the next rewrite by Iceberg's own action",
        {"partitions": spread.partitions, "tiny_share": share},
        {"partitions": TINY_PARTITIONS, "tiny_share": TINY_SHARE},
        lead=spread.partitions,
    )


def huge_partitions(known: Known, ease: float) -> RuleFinding | None:
    """Find partitions of many target sizes: a rewrite, a delete and a retry cost a whole
    partition."""
    spread = known.spread
    targets = spread.mean_bytes / max(known.target_bytes, 1)
    if targets < HUGE_TARGETS * ease:
        return None
    one = spread.partitions == 1
    return RuleFinding(
        ("all data is" if one else "the data is")
        + f" in {spread.partitions:,} partition{'' if one else 's'}"
        + f" of {size_text(spread.mean_bytes)}"
        + ("" if one else " in the mean")
        + ": each rewrite reads one whole",
        "partition more finely, by what readers filter by and deletes come by: a day, a bucket "
        "of the key",
        {"partitions": spread.partitions, "targets_in_partition": targets},
        {"targets_in_partition": HUGE_TARGETS},
        lead=targets,
    )


def skewed_partitions(known: Known, ease: float) -> RuleFinding | None:
    """Find a partition much larger than the mean: it takes as much time and memory as all others
    together."""
    spread = known.spread
    skew = spread.largest_bytes / max(spread.mean_bytes, 1.0)
    targets = spread.largest_bytes / max(known.target_bytes, 1)
    small = spread.partitions < SKEW_PARTITIONS or targets < SKEW_TARGETS
    if small or skew < SKEW * ease:
        return None
    return RuleFinding(
        f"the largest of {spread.partitions:,} partitions holds {size_text(spread.largest_bytes)}, "
        f"{skew:,.0f} times as much as the mean",
        "add a bucket of a key with many values to the partition spec, or split the value that "
        "most rows have (NULL, a default) from the others",
        {"partitions": spread.partitions, "skew": skew, "targets_in_largest": targets},
        {"partitions": SKEW_PARTITIONS, "skew": SKEW, "targets_in_largest": SKEW_TARGETS},
        lead=skew,
    )


def position_deletes_in_v2(known: Known, ease: float) -> RuleFinding | None:
    """Find many position deletes in a table of format v2: v3 has at most one deletion vector for a
    data file."""
    counters = known.table.counters
    files, data = counters.totals.holds.position_deletes.files, counters.totals.holds.all_data.files
    share = files / max(data, 1)
    few = files < POSITION_DELETE_FILES * ease or share < POSITION_DELETE_SHARE * ease
    if counters.format_version != 2 or few:
        return None
    return RuleFinding(
        f"{files:,} position-delete files lie on {data:,} data files",
        "upgrade the table to format-version=3 once all its readers know it: deletion vectors are "
        "at most one for each data file",
        {"position_delete_files": files, "share_of_data_files": share},
        {
            "position_delete_files": POSITION_DELETE_FILES,
            "share_of_data_files": POSITION_DELETE_SHARE,
        },
        lead=files,
    )


def global_deletes(known: Known, ease: float) -> RuleFinding | None:
    """Find equality deletes without a partition, which have to be read with every partition."""
    counters = known.table.counters
    files = counters.global_equality_deletes
    if files < GLOBAL_DELETES * ease:
        return None
    partitions = counters.totals.partitioned
    return RuleFinding(
        f"{files:,} equality-delete files without a partition apply to each of {partitions:,} "
        "partitions",
        "let the writer delete by keys that contain the partition columns, under the table's "
        "current partition spec",
        {"global_delete_files": files, "partitions": partitions},
        {"global_delete_files": GLOBAL_DELETES},
        lead=files,
    )


def file_format(known: Known) -> RuleFinding | None:
    """Find data files other than Parquet, which go to Iceberg's own action."""
    write_format = known.written_settings.get("write.format.default", "").strip().lower()
    if write_format not in SLOW_FORMATS:
        return None
    return RuleFinding(
        f"write.format.default={write_format}: Firnline hands such files to Iceberg's own action, "
        "which reads every delete again for every file",
        "set write.format.default=parquet; files that are there stay readable",
        mark=SLOW_FORMATS.index(write_format) + 1,
    )


def parquet_codec(known: Known, ease: float) -> RuleFinding | None:
    """Find a codec that is worse than Iceberg's default: zstd is smaller than one and faster than
    the other."""
    codec_name = known.written_settings.get("write.parquet.compression-codec", "").strip().lower()
    held = known.table.counters.totals.holds.all_data.bytes
    if codec_name not in POOR_CODECS or held < CODEC_BYTES * ease:
        return None
    return RuleFinding(
        f"write.parquet.compression-codec={codec_name} on {size_text(held)}",
        "set write.parquet.compression-codec=zstd, Iceberg's default; files change with their "
        "next rewrite",
        {"data_bytes": held},
        {"data_bytes": CODEC_BYTES},
        mark=POOR_CODECS.index(codec_name) + 1,
    )
