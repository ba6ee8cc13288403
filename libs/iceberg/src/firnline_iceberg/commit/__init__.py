"""Commit onto a pinned head, examine it, revert."""
