"""The stack as a whole."""
