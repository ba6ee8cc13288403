"""Scans and table loads of readers."""
