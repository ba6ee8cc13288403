"""Counters of a table's files, and the work under way."""
