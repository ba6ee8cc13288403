"""Actions on a table as a whole: when each is due."""
