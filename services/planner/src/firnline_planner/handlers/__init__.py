"""Handlers: how each kind of record changes the state."""
