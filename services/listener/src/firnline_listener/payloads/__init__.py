"""Parsers of events as other systems send them: headers and body to doorbells, nothing else."""
