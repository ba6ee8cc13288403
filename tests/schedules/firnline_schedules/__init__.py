"""Every order of writers' steps, rewrites, commits and expiries, on real Iceberg metadata."""
