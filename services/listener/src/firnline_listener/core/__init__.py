"""The one core behind all sources: queue, catalog reader, known tables, and what is new."""
