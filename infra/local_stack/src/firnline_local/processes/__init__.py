"""Processes of the stack and their ports."""
