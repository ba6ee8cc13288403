"""Every metric: its meaning, its labels, and the services that have it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from firnline_domain.advice.rules import RULES
from firnline_domain.policy.decisions import ORDERS
from firnline_domain.policy.lanes import Lane
from firnline_domain.policy.table_actions import TABLE_ACTIONS
from firnline_domain.records.conflict_reasons import ConflictReason
from firnline_domain.records.events import Classification

ALL = ("gateway", "enricher", "planner", "worker", "committer", "console")
CATALOG_CALLERS = ("gateway", "enricher", "worker", "committer")
# Reasons of dead letters, and what has happened.
DEAD: Mapping[str, str] = {
    "unexpected_record": "a record of a type that the service does not take from that topic",
    "empty_record": "a record without a value on a topic that has no tombstones",
    "not_single_object": "no Avro single-object encoding: not written by Firnline",
    "unknown_schema": "its schema is not on `schemas`: a newer service's, or foreign",
    "bad_value": "decoded, and a value is out of its range",
    "bad_body": "its bytes are not what its schema says",
    "too_large": "larger than the topic or the reader takes",
    "unencodable": "a record of ours that its schema cannot hold",
    "unsigned": "it carries no signature of the fleet ([signatures](../how-to/sign-records.md))",
    "unknown_key": "signed by a key that this service does not have",
    "bad_signature": "altered, or copied from another topic, partition or table",
    "stale": "signed longer ago than is believed",
    "signed_in_the_future": "signed further ahead than clocks may differ",
    "out_of_patience": "catalog or storage did not answer for as long as the record could wait",
    "unreadable": "the enricher could not read the table: an error that no retry mends",
    "unusable": "the service failed at it: an error of ours, with its text",
    "handler_failed": "the planner failed at it: an error of ours, with its text",
    "no_such_bucket": "a table was assigned to a bucket that the fleet does not have",
    "state_too_large": "the planner's state of the table is larger than its topic takes",
    "not_assigned": "a table was to move, and this driver of the planner moves none",
    "not_folded": "the console failed to show it; other services took it",
    "unknown_action": "an order or a result of an action that this version does not know",
    "unknown_catalog": "no connection of that name is in the service's settings",
    "unknown_prefix": "the catalog led its client to another prefix than the table's",
    "not_taken": "a record of a topic that each process reads whole could not be read",
    "ended_the_process": "it ended the process that took it, several times",
    "table_failing": "a step of the planner fails at the table, by an error of its own",
}
STATUSES = (*("200", "204", "400", "401", "403", "404", "409", "413", "500", "502", "503", "504"),)
CATALOG_ERRORS = ("401", "403", "429", "500", "502", "503", "504", "none")
ENDS = (
    *("finished", "finished_late", "failed", "failed_for_good", "lost", "waited_in_vain"),
    "expired",
    *("expiry_announced", "expiry_refused", "expiry_failed"),
    *("done", "refused"),  # of other actions on a table
)
Meanings = Mapping[tuple[str, ...], Mapping[str, str]]  # services -> name -> meaning

COUNTERS: Meanings = {
    ALL: {
        "records_read": "Records taken from Kafka.",
        "records_written": "Records handed to Kafka.",
        "records_shrunk": "Records made smaller because their topic takes no larger ones.",
        "dead_letters": "Records sent to dead-letters.",
    },
    CATALOG_CALLERS: {
        "catalog_errors": (
            "Calls that a catalog refused (401, 403, 429), failed at (5xx) or did not answer "
            "(`none`)."
        ),
        "dependency_errors": (
            "Pieces of the service's own work that catalog or storage did not answer; they are "
            "tried again."
        ),
    },
    ("enricher", "committer"): {
        "retries": "Times that a record was put off because catalog or storage did not answer.",
    },
    ("gateway",): {
        "gateway_calls": (
            "HTTP calls answered, by the answer's status. The catalog could not be reached: 503; "
            "it broke off: 502; it did not answer in time: 504."
        ),
        "gateway_commits": "Accepted changes of a table that became an event.",
        "gateway_unknown": (
            "Commits whose outcome the catalog's answer did not say; it is read from the table."
        ),
        "gateway_unread": (
            "Accepted calls that could not be read (too long, oddly spelt or encoded); their "
            "tables are read instead."
        ),
        "gateway_commit_holds": (
            "Times that others' commits to a table were held for a commit of Firnline's that had "
            "lost several races."
        ),
        "gateway_read_holds": "Times that reads of a table were held for a commit of Firnline's.",
        "gateway_scan_reports": (
            "Scans that clients have reported. Dropped: not as the REST spec has it, encoded, "
            "above 1 MB, or of a table that could not be read."
        ),
        "gateway_reads_by_load": (
            "Loads of tables that count as reads: their client neither writes the table nor "
            "reports its scans. Dropped: of a table that could not be read, or one too many."
        ),
        "gateway_refused_commits": (
            "Commits of writers that the catalog refused because another one came first (409). "
            "Dropped: of a table that could not be read, or one too many."
        ),
        "gateway_outbox_failures": (
            "Writes to the outbox file that failed; its events are in memory alone."
        ),
    },
    ("enricher",): {
        "snapshots_enriched": "Snapshots whose manifests were read.",
        "manifests_read": "Manifests opened.",
    },
    ("planner",): {
        "changes_folded": "FilesChanged folded into counters.",
        "changes_duplicate": "FilesChanged that were known already.",
        "changes_held": "FilesChanged that wait because their parent is not the head.",
        "resyncs": "ResyncTable requests sent.",
        "orders": "Orders sent; records_written has them by topic, hence by resource group.",
        "stores_removed": (
            "State of a bucket on this planner's disk that was removed and read anew from the "
            "changelog, because it was damaged, or stood elsewhere."
        ),
        "advice": "Advice about tables that was given (or repeated) or withdrawn.",
        "orders_ended": (
            "Orders that the planner has closed. Finished: the commit is in its counters; lost: "
            "begun, and silent since, or at work for too long; waited in vain: no worker took it "
            "for 12 hours; finished late: done after it had counted as lost."
        ),
        "partitions_parked": "Partitions parked after too many failures: no order for a day.",
        "tables_assigned": "Tables that were assigned to a bucket, new ones and moved ones.",
        "budget_byte_seconds": (
            "Memory times time foretold for the orders that the budget has paid for; "
            "FIRNLINE_BUDGET_GB_HOURS times 3.6e12 is the budget of an hour."
        ),
    },
    ("worker",): {
        "tasks_finished": (
            "Tasks that a worker has ended. Failed ones have their reason as the outcome."
        ),
        "rows_in": "Rows read by rewrites.",
        "rows_masked": "Rows that rewrites dropped as deleted.",
        "delete_sets": (
            "Delete sets that rewrites asked for. Rebuilt: keeping it would have spared work."
        ),
        "rows_compared": "Commits read back by Iceberg's own reader. Raise an alarm for differ.",
    },
    ("committer",): {
        "rewrites_committed": (
            "Results that reached the table, by what else had been committed meanwhile."
        ),
        "rewrites_conflicted": "Results that were refused.",
        "rewritten_bytes": (
            "Bytes of the data files that committed rewrites have replaced, and of those that they "
            "have added: write amplification, and by the difference what was saved."
        ),
        "outputs_deleted": "Output files removed because no commit took them.",
        "uploads_given_up": "Multipart uploads of killed tasks that were given up.",
    },
}
GAUGES: Meanings = {
    ALL: {
        "build_info": "Always 1.",
    },
    ("enricher", "planner", "worker", "committer", "console"): {
        "consumer_lag_records": (
            "Offsets between what this member has dealt with and the end, of each partition that "
            "it has, as far as its client has heard: while a partition is paused its end stays. "
            "Markers of transactions have offsets, too: 1 or 2 while idle."
        ),
    },
    ("gateway",): {
        "gateway_outbox_depth": "Events that are not yet on the broker.",
        "gateway_outbox_age_seconds": "Age of the oldest event that is not yet on the broker.",
    },
    ("planner",): {
        "tables": "Tables with counters in this planner.",
        "tables_paused": "Tables of this planner that are paused, by themselves or with the fleet.",
        "tables_failing": (
            "Tables of this planner of which a step fails (a decision, a published state, an "
            "order); each has one letter in dead-letters (`table_failing`) and is tried again. "
            "What a bucket does for none of its tables counts as one."
        ),
        "partitions_waiting": (
            "Partitions and actions on tables that wait for their turn within the budget."
        ),
        "partitions_off_objective": (
            "Partitions of this planner that miss an objective of their table "
            "(firnline.objective.*), as of the table's last published state."
        ),
        "equality_delete_age_of_promise": (
            "Age of the oldest equality delete over firnline.equality-deletes.max-age-ms of its "
            "table, the worst of this planner's tables. 1 and more: a promise is broken."
        ),
        "oldest_waiting_debt_seconds": (
            "Age of the oldest debt in this planner whose rewrite waits for its turn within the "
            "fleet's budget or a group's quota."
        ),
        "tasks_in_flight": "Partitions of this planner with an order out.",
        "price_factor": (
            "CPU seconds that tasks take here against those that were measured, as the bucket of "
            "this planner has learned it that is furthest off; between 1/20 and 20."
        ),
        "load": "Steps a minute of this planner's buckets: what they cost.",
        "hottest_bucket_load": "Steps a minute of its hottest bucket.",
    },
    ("enricher",): {
        "tables_unread": "Tables that this enricher could not read lately; their planners ask.",
    },
    ("worker",): {
        "tasks_running": "Tasks at work in this worker.",
    },
    ("console",): {
        "fleet_tables": "Tables of the fleet.",
        "fleet_data_files": "Data files of the fleet.",
        "fleet_data_bytes": "Bytes of the fleet's data files.",
        "fleet_debt_files": (
            "Maintenance debt: how many files fewer a compaction would leave, data files and "
            "delete files together."
        ),
        "fleet_partitions_parked": "Partitions that are parked.",
        "fleet_orders": "Orders without an outcome.",
        "fleet_oldest_order_seconds": "Age of the oldest order without an outcome.",
        "fleet_tables_waiting": "Tables whose counters wait for an answer to a ResyncTable.",
    },
}
HISTOGRAMS: Meanings = {
    CATALOG_CALLERS: {
        "catalog_seconds": (
            "Time from a call to a catalog to the head of its answer, or to the error. The "
            "committer: its commits, and what it reads itself."
        ),
    },
    ("gateway",): {
        "gateway_added_seconds": "Time that an answer to a commit waited for the outbox.",
        "gateway_commit_hold_seconds": "Time that a commit was held for a commit of Firnline's.",
        "gateway_read_hold_seconds": (
            "Time that a read of a table was held for a commit of Firnline's."
        ),
    },
    ("enricher",): {
        "enrich_seconds": "Time that one record took: manifests read, changes handed to Kafka.",
        "event_lag_seconds": (
            "Age of a commit, since the catalog accepted it, when the enricher takes it."
        ),
    },
    ("worker",): {
        "task_seconds": "Time of one rewrite, from order to result.",
    },
    ("committer",): {
        "commit_seconds": "Time of one attempt to commit the waiting results of a table.",
        "order_to_commit_seconds": "Time from an order to the commit of its result.",
    },
}
# Not kept, but read when Prometheus asks (`metrics.measured`).
AT_SCRAPE = frozenset({"consumer_lag_records"})
# By name: each label, with the values that are known beforehand.
LABELS: dict[str, dict[str, Iterable[str]]] = {
    "records_read": {"topic": ()},
    "records_written": {"topic": ()},
    "records_shrunk": {"topic": ()},
    "dead_letters": {"reason": DEAD},
    "oldest_waiting_debt_seconds": {"budget": ("fleet",)},
    "fleet_orders": {"group": ("default",), "lane": Lane},
    "fleet_oldest_order_seconds": {"group": ("default",), "lane": Lane},
    "dependency_errors": {"dependency": ("catalog", "storage", "memory", "other")},
    "catalog_errors": {"catalog": (), "status": CATALOG_ERRORS},
    "catalog_seconds": {"catalog": (), "method": ()},
    "consumer_lag_records": {"group": (), "topic": (), "partition": ()},
    "rewritten_bytes": {"files": ("replaced", "added")},
    "build_info": {"version": (), "service": ()},
    "gateway_calls": {"status": STATUSES},
    "gateway_scan_reports": {"outcome": ("counted", "dropped")},
    "gateway_reads_by_load": {"outcome": ("counted", "dropped")},
    "gateway_refused_commits": {"outcome": ("counted", "dropped")},
    "orders": {"reason": sorted(ORDERS), "lane": Lane},
    "advice": {"rule": RULES, "word": ("given", "withdrawn")},
    "orders_ended": {"outcome": ENDS},
    "price_factor": {"of": ("rewrites", "conversions", "sorts", *TABLE_ACTIONS)},
    "tasks_finished": {"outcome": ("rewritten", "handed_over", *TABLE_ACTIONS, "refused")},
    "delete_sets": {"had": ("built", "shared", "rebuilt")},
    "rows_compared": {"outcome": ("equal", "differ", "skipped")},
    "rewrites_committed": {"classification": Classification},
    "rewrites_conflicted": {"reason": ConflictReason},
}


@dataclass(frozen=True)
class Metric:
    """`labels`: name -> values that are known beforehand; others may come."""

    kind: str
    name: str
    meaning: str
    services: tuple[str, ...]
    labels: Mapping[str, tuple[str, ...]]

    @property
    def scraped(self) -> str:
        """Its name at Prometheus."""
        return f"firnline_{self.name}" + ("_total" if self.kind == "counter" else "")


def _all() -> dict[str, Metric]:
    kinds = {"counter": COUNTERS, "gauge": GAUGES, "histogram": HISTOGRAMS}
    return {
        name: Metric(
            kind,
            name,
            meaning,
            services,
            {label: tuple(map(str, values)) for label, values in LABELS.get(name, {}).items()},
        )
        for kind, meanings in kinds.items()
        for services, named in meanings.items()
        for name, meaning in named.items()
    }


METRICS = _all()
