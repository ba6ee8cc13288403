"""Code that several commands need."""
