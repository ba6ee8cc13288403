"""Commit results, one table at a time."""
