"""Buckets on Kafka transactions and RocksDB."""
