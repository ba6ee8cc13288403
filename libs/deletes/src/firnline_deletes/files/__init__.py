"""Parquet and Puffin files, read and written."""
