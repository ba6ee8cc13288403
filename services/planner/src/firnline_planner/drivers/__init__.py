"""What runs buckets: Kafka, Faust, or memory in tests."""
