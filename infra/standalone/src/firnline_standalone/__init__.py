"""Runs one action on one table in one process, without Kafka and without Redis."""
