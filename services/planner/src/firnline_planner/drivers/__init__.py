"""Drivers that run buckets: on Kafka, on Faust, or in memory in tests."""
