"""Buckets in memory."""
