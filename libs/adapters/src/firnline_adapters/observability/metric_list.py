"""Every metric: its meaning, its labels, and the services that have it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from firnline_domain.advice.rules import RULES
from firnline_domain.policy.fleet.lanes import Lane
from firnline_domain.policy.fleet.worker_memory import MemoryKind
from firnline_domain.policy.table_action.registry import ORDER_REASONS, TABLE_ACTIONS
from firnline_domain.policy.triggers.table import ORDERS
from firnline_domain.records.events import Classification
from firnline_domain.records.parts.conflict_reasons import ConflictReason
from firnline_domain.records.results import OUT_OF_MEMORY, DeleteKind
from firnline_domain.records.states import TABLE_STATUSES

ALL = ("gateway", "listener", "enricher", "planner", "worker", "committer", "console")
CATALOG_CALLERS = ("gateway", "listener", "enricher", "worker", "committer")
# Reasons of dead letters, and what has happened.
DEAD: Mapping[str, str] = {
    "unexpected_record": "The record's type does not belong on that topic.",
    "empty_record": "The record has no value, and the topic has no tombstones.",
    "not_single_object": (
        "The value is not in Avro single-object encoding. Firnline did not write it."
    ),
    "unknown_schema": (
        "The schema is not on the topic `schemas`: a newer service or another program wrote it."
    ),
    "bad_value": "A value is out of its range. The message names the field.",
    "bad_body": "The bytes do not match the schema.",
    "too_large": "The record is larger than the topic or the reader accepts.",
    "unencodable": "A service produced a record that does not fit its schema.",
    "unsigned": "The record has no signature. Check `FIRNLINE_SIGNING_KEYS` of its producer.",
    "unknown_key": (
        "The record is signed with a key that this service does not have. Give all services the "
        "same keys."
    ),
    "bad_signature": "The record was altered, or copied from another topic, partition or table.",
    "stale": "The signature is older than this service accepts.",
    "signed_in_the_future": (
        "The signature's time is further ahead than clocks may differ. Check the clocks."
    ),
    "out_of_patience": (
        "The catalog or storage did not respond for as long as the record could wait."
    ),
    "unreadable": (
        "The enricher cannot read the table, and a retry does not help. The message contains the "
        "error."
    ),
    "unusable": "The service failed because of an internal error. The message contains it.",
    "handler_failed": "The planner failed because of an internal error. The message contains it.",
    "no_such_bucket": "A table was assigned to a bucket that does not exist.",
    "unreadable_handover": (
        "The state of a moved table is damaged or from a newer planner. The table is counted anew "
        "from the catalog. Set its pause again."
    ),
    "state_too_large": "The planner's state of the table exceeds the topic's maximum size.",
    "not_assigned": "A table move was requested, and this planner driver does not support moves.",
    "not_folded": "The console could not process the record. Other services did.",
    "unknown_action": (
        "This version does not know the action of the task or result. Upgrade the service."
    ),
    "unknown_catalog": "The service's `firnline.toml` has no catalog of that name.",
    "unknown_prefix": "The catalog returned another prefix than the table's.",
    "not_taken": "A record of a topic that each process reads completely could not be read.",
    "ended_the_process": "Several processes died while processing the record.",
    "table_failing": "A step of the planner fails for the table because of an internal error.",
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
        "records_read": "Records read from Kafka.",
        "records_written": "Records written to Kafka.",
        "records_shrunk": "Records shortened because they exceeded the topic's maximum size.",
        "dead_letters": "Records sent to `dead-letters`.",
    },
    CATALOG_CALLERS: {
        "catalog_errors": (
            "Catalog calls that were refused (401, 403, 429), failed (5xx) or got no response "
            "(`none`)."
        ),
        "dependency_errors": (
            "Operations that failed because the catalog or storage did not respond. They are "
            "retried."
        ),
    },
    ("enricher", "committer"): {
        "retries": "Records postponed because the catalog or storage did not respond.",
    },
    ("listener",): {
        "doorbells": "Reports of a source that a table may have changed.",
        "doorbells_dropped": (
            "Reports that could not be read, or with an unknown catalog or an invalid name."
        ),
        "listener_commits": "Changes of tables that were found in a catalog and became an event.",
        "source_slots_made": (
            "Replication slots that a PostgreSQL source created. `lost`: the server dropped the "
            "previous one. The listener then reads the whole catalog."
        ),
        "source_failures": "Failed attempts to read a source. They are retried.",
    },
    ("gateway",): {
        "gateway_calls": (
            "HTTP calls answered, by status. 503: catalog unreachable, 502: connection to it "
            "broke, 504: it timed out."
        ),
        "gateway_commits": "Accepted changes of a table that became an event.",
        "gateway_unknown": (
            "Commits without a clear response of the catalog. The gateway reads the table to find "
            "the result."
        ),
        "gateway_unread": (
            "Accepted calls that could not be parsed (too long, unusual spelling or encoding). "
            "Their tables are read instead."
        ),
        "gateway_commit_holds": (
            "Commits of other clients that were delayed for a commit of Firnline that had lost "
            "several races."
        ),
        "gateway_read_holds": "Reads of a table that were delayed for a commit of Firnline.",
        "gateway_scan_reports": (
            "Scans that clients reported. `dropped`: not valid by the REST specification, "
            "encoded, above 1 MB, or of a table that could not be read."
        ),
        "gateway_reads_by_load": (
            "Table loads that count as reads, because the client neither writes the table nor "
            "reports its scans. `dropped`: table unreadable or queue full."
        ),
        "gateway_commits_refused": (
            "Commits of other clients that the catalog refused because the table had changed "
            "(409). `ours`: a commit of Firnline preceded by at most 5 s."
        ),
        "gateway_outbox_failures": (
            "Failed writes to the outbox file. Its events are in memory only."
        ),
    },
    ("enricher",): {
        "snapshots_enriched": "Snapshots whose manifests were read.",
        "manifests_read": "Manifests read.",
    },
    ("planner",): {
        "changes_folded": "`FilesChanged` records added to the statistics.",
        "changes_duplicate": "`FilesChanged` records that were already known.",
        "changes_held": (
            "`FilesChanged` records that wait because their parent is not the current snapshot."
        ),
        "resyncs": "`ResyncTable` requests sent.",
        "orders": (
            "Tasks scheduled. `firnline_records_written_total` counts them by topic and resource "
            "group."
        ),
        "stores_removed": (
            "Local planner states that were removed and restored from the changelog, because they "
            "were damaged or of another position."
        ),
        "advice": "Recommendations that were given, repeated or withdrawn.",
        "orders_ended": (
            "Tasks that the planner closed. `finished`: committed and counted. `lost`: started, "
            "then silent or too slow. `waited_in_vain`: no worker started it within 12 h. "
            "`finished_late`: finished after it was declared lost."
        ),
        "partitions_parked": "Partitions suspended for a day after too many failures.",
        "tables_assigned": "Tables assigned to a bucket, both new and moved ones.",
        "budget_byte_seconds": (
            "Estimated memory multiplied by time of the tasks that the budget paid for. The "
            "budget of an hour is `FIRNLINE_BUDGET_GB_HOURS` times 3.6e12."
        ),
    },
    ("worker",): {
        "tasks_finished": (
            "Tasks that a worker completed. The outcome of a failed task is its reason code."
        ),
        "expired": "Snapshots that expiries removed, and files that they deleted.",
        "rows_in": "Rows read by rewrites.",
        "rows_masked": "Deleted rows that rewrites removed.",
        "delete_sets": (
            "Delete sets that rewrites used. `rebuilt`: it had been built before and was no "
            "longer in memory."
        ),
        "rows_compared": (
            "Commits whose rows were verified with Iceberg's own reader. Set an alert for `differ`."
        ),
    },
    ("committer",): {
        "rewrites_committed": "Results committed, by the other commits since the task started.",
        "rewrites_conflicted": "Results that were refused.",
        "rewritten_bytes": "Bytes of data files that committed rewrites replaced and added.",
        "outputs_deleted": "Output files removed because no commit uses them.",
        "uploads_given_up": "Unfinished multipart uploads of killed tasks that were aborted.",
    },
}
GAUGES: Meanings = {
    ALL: {
        "build_info": "Version of the service. The value is always 1.",
    },
    ("listener", "enricher", "planner", "worker", "committer", "console"): {
        "consumer_lag_records": (
            "Offsets between the last processed record and the end of each assigned partition, as "
            "the client knows it. Not updated while a partition is paused. Transaction markers "
            "count, so an idle partition shows 1 or 2."
        ),
    },
    ("listener",): {
        "sweep_late_seconds": (
            "Time since which the next table is due to be checked for commits. Increase "
            "`FIRNLINE_CALLS_PER_MINUTE` if it grows."
        ),
        "source_wal_held_bytes": (
            "Write-ahead log that PostgreSQL keeps for the replication slot of a source."
        ),
        "looks_waiting": "Tables and listings that wait for a call to their catalog.",
    },
    ("gateway",): {
        "gateway_outbox_depth": "Events that are not yet in Kafka.",
        "gateway_outbox_age_seconds": "Age of the oldest event that is not yet in Kafka.",
    },
    ("planner",): {
        "policy_problems": (
            "Problems in the `[[policies]]` of `firnline.toml`, as it was last read. Above 0 after "
            "a change: the policies of before stay in force."
        ),
        "tables": "Tables of this planner.",
        "tables_paused": "Tables of this planner that are paused, individually or with all others.",
        "tables_failing": (
            "Tables of this planner for which a step fails (a decision, a published state, a "
            "task). Each has one dead letter (`table_failing`) and is retried. A failing step of "
            "a whole bucket counts as one."
        ),
        "partitions_waiting": "Partitions and table actions that wait for budget.",
        "partitions_off_objective": (
            "Partitions of this planner that miss an objective of their table "
            "(`firnline.objective.*`), by the last published state."
        ),
        "equality_delete_age_of_promise": (
            "Age of the oldest equality delete divided by `firnline.equality-deletes.max-age-ms` "
            "of its table, maximum of this planner. From 1 on the maximum age is exceeded."
        ),
        "oldest_waiting_debt_seconds": (
            "Age of the oldest files to compact in this planner whose rewrite waits for the "
            "budget or for a group's quota."
        ),
        "tasks_in_flight": "Partitions of this planner with a scheduled or running task.",
        "price_factor": (
            "Measured CPU time divided by the model's estimate, of the most deviating bucket of "
            "this planner, between 1/20 and 20."
        ),
        "worker_memory_steps": (
            "Steps of memory that this planner requests for the workers of the heavy queue, "
            "maximum of its buckets."
        ),
        "load": "Work units per minute processed by this planner.",
        "hottest_bucket_load": "Work units per minute of this planner's busiest bucket.",
    },
    ("enricher",): {
        "tables_unread": (
            "Tables that this enricher could not read recently. Their planners request them again."
        ),
    },
    ("worker",): {
        "tasks_running": "Running tasks of this worker.",
        "worker_memory_bytes": (
            "Resident memory of this worker, its JVM and their child processes. Shared pages count "
            "in each process."
        ),
        "worker_gc_share": (
            "Share of the last 30 s that the worker's JVM spent on garbage collection. From 0.3 on "
            "its task counts as one that ran out of memory."
        ),
        "worker_limit_share": (
            "Share of the container's memory limit that this worker holds, without the page cache. "
            "From 0.95 on its task counts as one that ran out of memory."
        ),
        "worker_draining": "1 if this worker completes its tasks and ends, else 0.",
    },
    ("console",): {
        "fleet_tables": "Tables, by status.",
        "fleet_data_files": "Data files of all tables.",
        "fleet_data_bytes": "Bytes of all data files.",
        "fleet_debt_files": (
            "Maintenance debt: how many files fewer a compaction would leave, data files and "
            "delete files together."
        ),
        "fleet_delete_files": "Delete files of all tables.",
        "fleet_table_debt_files": "Maintenance debt of the 20 tables with the most.",
        "fleet_namespace_debt_files": "Maintenance debt of the 20 namespaces with the most.",
        "fleet_namespace_data_bytes": "Bytes of the data files in these namespaces.",
        "fleet_namespace_delete_files": "Delete files in these namespaces.",
        "fleet_partitions_parked": "Suspended partitions.",
        "fleet_orders": "Tasks without a result.",
        "fleet_workers_wanted": (
            "Workers with 2 cores that would complete the open tasks within 60 s, and more if the "
            "oldest task has waited longer."
        ),
        "fleet_oldest_order_seconds": "Age of the oldest task that no worker has started.",
        "fleet_tables_waiting": (
            "Tables whose statistics wait for the answer to a `ResyncTable` request."
        ),
    },
}
HISTOGRAMS: Meanings = {
    ("enricher", "worker", "committer"): {
        "storage_read_seconds": (
            "Time to read one manifest or manifest list from the storage. Worker: without its "
            "executors and its JVM."
        ),
    },
    ("planner",): {
        "commit_to_order_seconds": (
            "Age of the oldest commit whose files a rewrite takes, when its task is scheduled."
        ),
        "commit_to_healthy_seconds": (
            "Age of that commit when the statistics contain the rewrite. Sorting is not included."
        ),
    },
    CATALOG_CALLERS: {
        "catalog_seconds": (
            "Time from a catalog call to the head of its response, or to the error. Committer: "
            "its commits and its own reads."
        ),
    },
    ("gateway",): {
        "gateway_added_seconds": "Time that the response to a commit waited for the outbox.",
        "gateway_commit_hold_seconds": "Time that a commit was delayed for a commit of Firnline.",
        "gateway_read_hold_seconds": "Time that a read was delayed for a commit of Firnline.",
    },
    ("enricher",): {
        "enrich_seconds": (
            "Time to process one record: read manifests and write the changes to Kafka."
        ),
        "event_lag_seconds": (
            "Time from the catalog's response to a commit until the enricher reads the event."
        ),
    },
    ("worker",): {
        "order_to_start_seconds": "Time from scheduling a task until a worker starts it.",
        "task_seconds": "Time of one rewrite, from the task's arrival to its result.",
    },
    ("committer",): {
        "commit_seconds": "Time of one attempt to commit the waiting results of a table.",
        "order_to_commit_seconds": "Time from scheduling a task to the commit of its result.",
    },
}
# Not kept, but read when Prometheus asks (`metrics.measure_at_scrape`).
AT_SCRAPE = frozenset(
    {
        "consumer_lag_records",
        "worker_memory_bytes",
        "fleet_table_debt_files",
        "fleet_namespace_debt_files",
        "fleet_namespace_data_bytes",
        "fleet_namespace_delete_files",
    }
)
# Histograms of what takes seconds to days.
LONG = frozenset(
    {
        "commit_to_order_seconds",
        "commit_to_healthy_seconds",
        "order_to_start_seconds",
        "order_to_commit_seconds",
        "task_seconds",
    }
)
# By name: each label, with the values that are known beforehand.
LABELS: dict[str, dict[str, Iterable[str]]] = {
    "records_read": {"topic": ()},
    "records_written": {"topic": ()},
    "records_shrunk": {"topic": ()},
    "dead_letters": {"reason": DEAD},
    "oldest_waiting_debt_seconds": {"budget": ("fleet",)},
    "fleet_tables": {"status": TABLE_STATUSES},
    "fleet_delete_files": {"kind": DeleteKind},
    "fleet_table_debt_files": {"table": ()},
    "fleet_namespace_debt_files": {"namespace": ()},
    "fleet_namespace_data_bytes": {"namespace": ()},
    "fleet_namespace_delete_files": {"namespace": ()},
    "fleet_orders": {"group": ("default",), "lane": Lane},
    "fleet_workers_wanted": {"group": ("default",), "lane": Lane},
    "worker_memory_steps": {"group": ("default",), "memory": MemoryKind},
    "fleet_oldest_order_seconds": {"group": ("default",), "lane": Lane},
    "dependency_errors": {"dependency": ("catalog", "storage", "memory", "other")},
    "catalog_errors": {"catalog": (), "status": CATALOG_ERRORS},
    "catalog_seconds": {"catalog": (), "method": ()},
    "consumer_lag_records": {"group": (), "topic": (), "partition": ()},
    "rewritten_bytes": {"files": ("replaced", "added")},
    "build_info": {"version": (), "service": ()},
    "doorbells": {"source": ()},
    "doorbells_dropped": {"source": ()},
    "source_failures": {"source": ()},
    "source_slots_made": {"source": (), "reason": ("lost", "missing")},
    "source_wal_held_bytes": {"source": ()},
    "sweep_late_seconds": {"catalog": ()},
    "gateway_calls": {"status": STATUSES},
    "gateway_commits_refused": {"after": ("ours", "others")},
    "gateway_scan_reports": {"outcome": ("counted", "dropped")},
    "gateway_reads_by_load": {"outcome": ("counted", "dropped")},
    "orders": {"reason": sorted({*ORDERS, *ORDER_REASONS}), "lane": Lane},
    "advice": {"rule": RULES, "word": ("given", "withdrawn")},
    "orders_ended": {"outcome": ENDS},
    "price_factor": {"of": ("rewrites", "conversions", "sorts", *TABLE_ACTIONS)},
    "tasks_finished": {
        "outcome": ("rewritten", "handed_over", *TABLE_ACTIONS, "refused", OUT_OF_MEMORY)
    },
    "expired": {"what": ("snapshots", "files")},
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
    def prometheus_name(self) -> str:
        """Return the metric's name in Prometheus: with `firnline_` in front, and `_total` behind a
        counter."""
        return f"firnline_{self.name}" + ("_total" if self.kind == "counter" else "")


def _all_metrics() -> dict[str, Metric]:
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


METRICS = _all_metrics()
