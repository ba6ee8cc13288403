"""Columns of a file: field ids, keys, hashes."""
