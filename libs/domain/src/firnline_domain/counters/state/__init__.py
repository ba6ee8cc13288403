"""The counters of a table and of its partitions."""
