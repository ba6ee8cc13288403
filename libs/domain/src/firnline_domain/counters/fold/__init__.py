"""Fold file changes into the counters."""
