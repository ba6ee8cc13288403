"""`firnline purge`: which files contain deleted rows, and when the last of them was removed."""
