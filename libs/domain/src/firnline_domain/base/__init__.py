"""Values, numbers and times."""
