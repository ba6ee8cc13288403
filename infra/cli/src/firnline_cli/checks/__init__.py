"""What `firnline doctor` tries, by subject: host, kafka, redis, catalog, storage, clock, events."""
