"""Iceberg metadata read in Python, commits through the Java API.

`tables` (what the catalog says) -> `manifests` (what a snapshot's files say) -> `files` (as
values) -> `planning` (what is live, which deletes apply to it).
"""
