"""What a rewrite costs and what it saves."""
