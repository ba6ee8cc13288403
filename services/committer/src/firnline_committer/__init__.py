"""RewriteFinished -> conflict check -> one Iceberg commit."""
