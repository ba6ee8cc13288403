"""Buckets on Faust."""
