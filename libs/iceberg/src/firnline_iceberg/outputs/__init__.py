"""Files that Firnline writes: names, write-ahead list, marks."""
