"""Expire snapshots, refs and metadata files."""
