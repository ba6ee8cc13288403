"""Triggers of a rewrite: `table` lists them all."""
