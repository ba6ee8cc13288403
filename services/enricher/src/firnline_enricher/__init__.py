"""TableCommitted -> FilesChanged: what each commit changed.

`pump` (poll, flush, commit) -> `handlers` -> `commits` (O(commit)) or `resyncs` (what a planner
missed) -> `metadata.partition_tally` of firnline_iceberg (entries to partitions) -> `file_changes`
(the records that go out).
"""
