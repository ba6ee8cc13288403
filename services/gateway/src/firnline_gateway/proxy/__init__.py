"""Relay calls to the catalog."""
