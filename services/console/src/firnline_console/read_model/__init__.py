"""The read model in Redis, folded from the topics."""
