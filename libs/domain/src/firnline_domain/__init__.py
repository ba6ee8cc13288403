"""Pure types and decisions; standard library only."""
