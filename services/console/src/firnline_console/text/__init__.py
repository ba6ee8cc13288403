"""Amounts and labels as text."""
