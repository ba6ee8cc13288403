"""What can be measured on its own: `make bench-rewrite PART=...`."""
