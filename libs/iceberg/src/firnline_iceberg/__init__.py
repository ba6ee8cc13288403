"""Iceberg metadata read in Python, commits through the Java API.

`table.catalog_client` (what the catalog says) -> `metadata.manifest_reader` (what a snapshot's
files say) -> `metadata.entries` (as values) -> `scan.planning` (what is live, which deletes apply
to it).
"""
