"""Kafka, Redis, settings, metrics and logs behind the ports."""
