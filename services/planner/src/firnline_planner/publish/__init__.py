"""Publish table states and advice."""
