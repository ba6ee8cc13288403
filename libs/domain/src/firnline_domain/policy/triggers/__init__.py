"""What makes the rewrite of a partition due."""
