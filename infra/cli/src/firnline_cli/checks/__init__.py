"""The checks of `firnline doctor`, by subject: host, kafka, redis, catalog, storage, clock,
events."""
