"""Kafka, Redis, the catalog and their files."""
