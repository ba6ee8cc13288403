"""Values that several records contain."""
