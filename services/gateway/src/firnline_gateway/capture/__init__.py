"""Capture commits that pass through the proxy."""
