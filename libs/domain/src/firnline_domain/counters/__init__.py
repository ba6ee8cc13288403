"""What the planner knows of a table: counters of its files, and the work under way."""
