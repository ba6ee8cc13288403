"""Iceberg's REST protocol: routes, requests, responses."""
