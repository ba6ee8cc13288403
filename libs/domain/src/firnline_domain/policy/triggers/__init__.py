"""Special triggers of a rewrite. Counts, sizes and read debt: `policy.partition.due_trigger`."""
