"""The fleet's topics."""
