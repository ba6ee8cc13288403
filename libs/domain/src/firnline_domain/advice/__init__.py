"""Advice for the owners of tables."""
