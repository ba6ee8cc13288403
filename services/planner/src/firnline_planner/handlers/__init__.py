"""What each kind of record changes."""
