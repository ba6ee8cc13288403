"""Carry out the rewrite of a partition."""
