"""The transactional driver: a batch of records, one transaction."""
