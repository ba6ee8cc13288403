"""Doorbells -> TableCommitted: commits that writers made without the gateway.

`sources` (each on a thread of its own) ring -> `core.queue` (once per table) -> `core.reader` (asks
the catalog, within a budget) -> `core.changes` (what is new since the last published head) ->
`table-commits`. What a source says is never believed.
"""
