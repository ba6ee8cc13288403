"""A hostile tenant: whoever reaches the broker, the gateway and a table of their own."""
