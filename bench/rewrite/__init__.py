"""Firnline's rewrite beside Iceberg's own and beside the floor: `make bench-rewrite`."""
