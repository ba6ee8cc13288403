"""Advice about what writers do, from the hour that runs and the one before it."""

from __future__ import annotations

from firnline_domain.advice.finding import Known, RuleFinding, size_text
from firnline_domain.counters.activity.writers import Hour
from firnline_domain.policy.triggers.objectives import lead_ms
from firnline_domain.records.parts.tallies import FRAGMENTS_IN_TARGET

COMMITS = 120  # an hour: one every 30 s
METADATA_COMMITS = 60  # an hour: 1,440 metadata files a day
OVERWRITES = 12  # an hour
RETURNED_SHARE = 0.9
CONFLICTS = 3  # an hour
CONFLICT_SHARE = 0.2  # of our results
DELETE_AFTER_COMMIT = "write.metadata.delete-after-commit.enabled"


def _busiest_hour(known: Known, count: str) -> Hour:
    hours = known.table.work.activity.recent_hours(known.now_ms)
    return max(hours, key=lambda hour: int(getattr(hour, count)), default=Hour())


def frequent_commits(known: Known, ease: float) -> RuleFinding | None:
    """Find many small commits: each is a snapshot, a manifest and files to be merged."""
    hour = _busiest_hour(known, "commits")
    mean = hour.added_bytes / max(hour.commits, 1)
    least = known.target_bytes / FRAGMENTS_IN_TARGET
    if hour.commits < COMMITS * ease or mean >= least / ease:
        return None
    return RuleFinding(
        f"{hour.commits:,} commits of writers in an hour, {size_text(mean)} of data each",
        "commit less often where readers can wait: a longer checkpoint interval of Flink, a longer "
        "trigger of Spark's stream, a longer commit interval of Kafka Connect",
        {"commits_per_hour": hour.commits, "bytes_per_commit": mean},
        {"commits_per_hour": COMMITS, "bytes_per_commit": least},
        lead=hour.commits,
    )


def metadata_files_kept(known: Known, ease: float) -> RuleFinding | None:
    """Find many commits of a table that keeps all metadata files: every commit adds one, and expiry
    does not remove it."""
    hour = _busiest_hour(known, "commits")
    kept = known.written_settings.get(DELETE_AFTER_COMMIT, "").strip().lower() != "true"
    if not kept or hour.commits < METADATA_COMMITS * ease:
        return None
    return RuleFinding(
        f"{hour.commits:,} commits in an hour, each of which leaves a metadata file permanently",
        f"set firnline.metadata.previous-versions-max=100, and Firnline sets {DELETE_AFTER_COMMIT} "
        "with the next expiry and removes what is there; or set that yourself; unless the catalog "
        "removes them by itself",
        {"commits_per_hour": hour.commits},
        {"commits_per_hour": METADATA_COMMITS},
        lead=hour.commits,
    )


def copy_on_write(known: Known, ease: float) -> RuleFinding | None:
    """Find whole files that are rewritten repeatedly. How many of their rows changed is unknown."""
    hour = _busiest_hour(known, "overwrites")
    share = hour.returned_records / max(hour.replaced_records, 1)
    if hour.overwrites < OVERWRITES * ease or share < RETURNED_SHARE * ease:
        return None
    return RuleFinding(
        f"{hour.overwrites:,} commits in an hour replaced files with {hour.replaced_records:,} "
        f"rows by files with {hour.returned_records:,}",
        "where few of the rows change: set write.delete.mode, write.update.mode and "
        "write.merge.mode to merge-on-read, and Firnline applies the deletes",
        {"overwrites_per_hour": hour.overwrites, "returned_share": share},
        {"overwrites_per_hour": OVERWRITES, "returned_share": RETURNED_SHARE},
        lead=hour.overwrites,
    )


def equality_delete_promise(known: Known, ease: float) -> RuleFinding | None:
    """Find a maximum age of equality deletes that cannot be kept: tasks take longer than it allows,
    or there are deletes that no rewrite of a partition removes."""
    promise_ms, served = known.settings.max_equality_delete_age_ms, known.table.work.service
    if not promise_ms:
        return None
    lead, foreign = lead_ms(known), known.table.counters.global_equality_deletes
    age_ms = max(known.now_ms - served.promised.oldest_ms, 0) if served.promised else 0
    if not foreign and lead < promise_ms * ease and age_ms < promise_ms:
        return None
    why = f"from an order to its commit up to {served.turnaround_ms / 1000:,.0f} s pass"
    remedy = (
        "let writers commit deletes less often, give the table's partitions fewer bytes or "
        "workers more cores, or promise less"
    )
    if foreign:
        why = f"{foreign:,} equality-delete files have no partition, and reach those of every one"
        remedy = "let writers delete by keys that contain the partition columns"
    return RuleFinding(
        f"no equality delete may be older than {promise_ms / 1000:,.0f} s, and {why}; the oldest "
        f"is {age_ms / 1000:,.0f} s old",
        remedy,
        {"oldest_s": age_ms / 1000, "lead_s": lead / 1000, "global_deletes": foreign},
        {"oldest_s": promise_ms / 1000, "lead_s": promise_ms / 1000},
        mark=1 + bool(foreign),
    )


def write_conflicts(known: Known, ease: float) -> RuleFinding | None:
    """Find results in vain because writers changed what Firnline was rewriting."""
    hour = _busiest_hour(known, "conflicts")
    share = hour.conflicts / max(hour.results, 1)
    if hour.conflicts < CONFLICTS * ease or share < CONFLICT_SHARE * ease:
        return None
    return RuleFinding(
        f"{hour.conflicts:,} of {hour.results:,} results in an hour could not be committed, or "
        "not whole, because of writers",
        "give maintenance a quiet time (firnline.window), let it wait longer after writers "
        "(firnline.rewrite.hot-ms), or let them write by merge-on-read",
        {"conflicts_per_hour": hour.conflicts, "conflict_share": share},
        {"conflicts_per_hour": CONFLICTS, "conflict_share": CONFLICT_SHARE},
        lead=hour.conflicts,
    )
