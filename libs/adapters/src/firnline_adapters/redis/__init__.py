"""The Redis client and leases in Redis."""
