"""Examine a result against the pinned head."""
