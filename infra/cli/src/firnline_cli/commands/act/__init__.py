"""Commands that change tables or the fleet."""
