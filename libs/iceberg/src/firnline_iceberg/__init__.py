"""Iceberg metadata read in Python, commits through the Java API."""
