"""Placement: which bucket counts a table, and how a table moves."""
