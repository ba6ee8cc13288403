"""Reconciliation: from a changed table to tasks, recommendations and a published state."""
