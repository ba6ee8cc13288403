"""Object stores and file systems."""
