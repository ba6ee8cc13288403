"""The decision about one partition."""
