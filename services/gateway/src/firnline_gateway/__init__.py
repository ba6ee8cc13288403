"""commit -> TableCommitted: a transparent Iceberg REST proxy."""
