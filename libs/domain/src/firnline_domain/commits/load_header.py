"""Identify our own services in every call to a catalog, for a gateway that counts readers."""

from __future__ import annotations

OURS = "Firnline-Maintenance"  # an HTTP header; its value is not looked at
MARK = {f"header.{OURS}": "true"}  # as a property of Iceberg's REST clients
