"""Actions on a table in any order, beside writers and crashes: every snapshot keeps its rows."""
