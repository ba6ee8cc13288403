"""Finds tables that existed before Firnline, ranks them, and has them counted by the planner."""
