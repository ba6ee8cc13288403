"""Reads, filters and writers of a table over time."""
