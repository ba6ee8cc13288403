"""Actions on a whole table beside Iceberg's own: `make bench-actions`."""
