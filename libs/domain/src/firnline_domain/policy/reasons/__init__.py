"""Reason codes of decisions."""
