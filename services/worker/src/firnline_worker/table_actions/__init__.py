"""Carry out actions on a table as a whole."""
