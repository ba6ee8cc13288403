"""Kafka clients: consume, produce, and read the small topics in full."""
