"""Forecasts the tasks for tables as a catalog has them now, without a planner."""
