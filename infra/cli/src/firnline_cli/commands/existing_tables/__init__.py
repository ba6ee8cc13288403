"""Commands for tables that existed before Firnline."""
