"""The planner alone, on a real broker: `make bench-planner`."""
