"""A table's archive table and the copies of its data files."""
