"""What a lake's metadata says of its tables: what ails them, and what Firnline would do first."""
