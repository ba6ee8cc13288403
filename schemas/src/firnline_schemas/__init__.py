"""The contract: one YAML per topic, Avro schemas by version, examples of every record."""
