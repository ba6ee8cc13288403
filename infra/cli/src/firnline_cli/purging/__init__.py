"""`firnline purge`: which files hold deleted rows, and when the last of them went."""
