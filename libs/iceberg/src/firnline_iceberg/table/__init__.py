"""Tables as the catalog returns them, and where their files are."""
