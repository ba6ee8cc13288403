"""Assesses the tables of a lake by its metadata: what is wrong with them, and what Firnline would
do first."""
