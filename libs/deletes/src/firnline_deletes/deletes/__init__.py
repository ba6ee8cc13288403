"""Delete sets: equality keys, positions, deletion vectors."""
