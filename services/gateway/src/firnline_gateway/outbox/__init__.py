"""Commit events on disk until Kafka has them."""
