"""Iceberg's Java library in a JVM of this process."""
