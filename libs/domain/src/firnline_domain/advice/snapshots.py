"""Advice about snapshots and manifests: metadata that every reader and writer loads."""

from __future__ import annotations

from datetime import UTC, datetime

from firnline_domain.advice.finding import UNKNOWN, Known, RuleFinding, size_text
from firnline_domain.base.times import DAY_MS, HOUR_MS
from firnline_domain.policy.table_action.snapshot_retention import ExpiryReason, begins_ms
from firnline_domain.settings.thresholds import ExpiryMode

SNAPSHOTS = 1_000  # about 1 MB of metadata file, which is written with every commit
MANIFESTS = 500
MANIFEST_BYTES = 1 << 20  # in the mean: an eighth of Iceberg's target for one
METADATA_BYTES = 8 << 20  # each load of the table reads and parses it, each commit writes it anew
SNAPSHOT_BYTES = 1_000  # of it, about
FRUITLESS = 3  # expiries in a row that found nothing to expire
HELD_RETENTIONS = 2.0  # age of the oldest snapshot


def many_snapshots(known: Known, ease: float) -> RuleFinding | None:
    """Find more snapshots than a table of that kind needs. The remedy depends on what retains
    them."""
    count = known.table.counters.snapshot_count
    if count is None:
        return UNKNOWN
    if count < SNAPSHOTS * ease:
        return None
    return RuleFinding(
        f"{count:,} snapshots are kept; each commit writes the list of all of them",
        _snapshot_remedy(known),
        {"snapshots": count, "retention_hours": known.settings.retention_ms / HOUR_MS},
        {"snapshots": SNAPSHOTS},
        lead=count,
    )


def _snapshot_remedy(known: Known) -> str:
    settings = known.settings
    if not settings.enabled:
        return "nothing expires them here (firnline.enabled=false)"
    if not settings.gc_enabled:
        return "gc.enabled=false keeps them all: set it to true, and tag what has to stay"
    if settings.min_snapshots >= SNAPSHOTS:
        return "lower history.expire.min-snapshots-to-keep"
    hours = settings.retention_ms / HOUR_MS
    return (
        f"keep them less long than {hours:,.0f} hours (firnline.retain.hours), or commit less often"
    )


def many_manifests(known: Known, ease: float) -> RuleFinding | None:
    """Find many small manifests: each reader's planning opens all that it cannot leave out."""
    counters = known.table.counters
    count, mean = counters.manifests, counters.manifest_bytes / max(counters.manifests, 1)
    if count < MANIFESTS * ease or mean >= MANIFEST_BYTES / ease:
        return None
    return RuleFinding(
        f"{count:,} manifests of {size_text(mean)} in the mean",
        "let writers that only append merge them (commit.manifest-merge.enabled; fast appends "
        "never do), and Firnline rewrite them (firnline.manifests.min-count is not 0)",
        {"manifests": count, "bytes_per_manifest": mean},
        {"manifests": MANIFESTS, "bytes_per_manifest": MANIFEST_BYTES},
        lead=count,
    )


def large_metadata(known: Known, ease: float) -> RuleFinding | None:
    """Find large metadata by the catalog's answers, as the gateway passes them on."""
    held, count = known.table.counters.metadata_bytes, known.table.counters.snapshot_count
    if held is None:
        return UNKNOWN
    if held < METADATA_BYTES * ease:
        return None
    by_snapshots = 2 * SNAPSHOT_BYTES * (count or 0) >= held
    return RuleFinding(
        metadata_text(held, count),
        _expiry_remedy(known) if by_snapshots else OTHER_METADATA,
        {"metadata_bytes": held, "snapshots": count or 0},
        {"metadata_bytes": METADATA_BYTES},
        lead=held,
    )


def metadata_text(held_bytes: int, snapshots: int | None) -> str:
    """Describe what `large_metadata` finds."""
    count = "" if snapshots is None else f"; it has {snapshots:,} snapshots"
    return (
        f"its metadata (metadata.json) has {size_text(held_bytes)}, which each load of the table "
        f"reads and each commit writes anew{count}"
    )


OTHER_METADATA = (
    "snapshots are the smaller part: the log of earlier metadata files, old schemas and specs, "
    "statistics and properties make up the rest. Lower write.metadata.previous-versions-max, with "
    "write.metadata.delete-after-commit.enabled=true (firnline.metadata.previous-versions-max sets "
    "both), and let Firnline expire snapshots, which takes unused schemas and specs along"
)


def _expiry_remedy(known: Known) -> str:
    if known.settings.expire is ExpiryMode.NEVER:
        return "firnline.expire.enabled=false keeps its snapshots: let Firnline expire them"
    return _snapshot_remedy(known)


def held_snapshots(known: Known, ease: float) -> RuleFinding | None:
    """Find old snapshots that several expiries could not remove, because tags, branches or
    streaming readers retain them."""
    counters, fruitless = known.table.counters, known.table.work.expiry.fruitless
    if counters.oldest_snapshot_ms is None or fruitless < FRUITLESS:
        return None
    age_ms = known.now_ms - counters.oldest_snapshot_ms
    retentions = age_ms / max(known.settings.retention_ms, HOUR_MS)
    if retentions < HELD_RETENTIONS * ease:
        return None
    remedy = (
        "remove the tags and branches that are no longer needed, or let them end "
        "(max-ref-age-ms); files that they alone reach stay in storage"
    )
    if known.settings.streaming_readers:
        remedy += (
            ". firnline.streaming-readers=true keeps all snapshots since rows were last added: "
            "unset it if no stream reads the table"
        )
    return RuleFinding(
        f"the oldest snapshot is {age_ms / DAY_MS:,.1f} days old and cannot be expired",
        remedy,
        {"retentions": retentions, "fruitless_expiries": fruitless},
        {"retentions": HELD_RETENTIONS, "fruitless_expiries": FRUITLESS},
        lead=retentions,
    )


def expiry_announced(known: Known) -> RuleFinding | None:
    """Announce the first expiry, which deletes data, a grace period before it begins, unless it was
    requested."""
    work = known.table.work
    if work.expiry.reason != ExpiryReason.GRACE_PERIOD:
        return None
    begins, going = begins_ms(known), work.expiry.going
    moment = f"{datetime.fromtimestamp(begins // 1000, UTC):%Y-%m-%d %H:%M} UTC"
    return RuleFinding(
        f"{going.snapshots:,} snapshots, and {going.files:,} files of about "
        f"{size_text(going.bytes)} that only they need, are deleted from {moment} "
        "on; so is what grows as old later",
        "nothing, if that is well; firnline.expire.enabled=false keeps them all, =true lets it "
        "begin at once, and firnline.retain.hours says how long they are kept",
        {"snapshots": going.snapshots, "files": going.files, "bytes": going.bytes},
        mark=work.expiry.announced_ms or 0,
    )


def external_files(known: Known) -> RuleFinding | None:
    """Find a table whose expiry is off because other systems may need its files: by `add_files`, or
    from before a migration."""
    if known.table.work.expiry.reason != ExpiryReason.EXTERNAL_FILES:
        return None
    return RuleFinding(
        "it has, or had, files outside its own locations, or was made from another table's: no "
        "snapshot is expired and no file is cleaned up",
        "if no other system needs these files, set firnline.expire.enabled=true on the table; "
        "=false ends this recommendation",
    )
