"""The number and the memory of workers."""
