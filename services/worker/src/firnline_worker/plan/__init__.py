"""Plan the rewrite of a partition."""
