"""The contract: one YAML per topic, Avro schemas, examples."""
