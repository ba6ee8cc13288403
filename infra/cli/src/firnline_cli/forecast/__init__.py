"""What would be ordered for tables as a catalog has them now, without a planner."""
