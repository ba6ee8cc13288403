"""The embedded stack: broker, Redis, catalog and services as processes."""
