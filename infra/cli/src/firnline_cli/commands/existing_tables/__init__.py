"""Commands for tables that exist before Firnline does."""
