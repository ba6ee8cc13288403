"""Decisions about a table: pure functions of counters, settings and time."""
