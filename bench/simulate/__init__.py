"""A synthetic fleet in virtual time, under Firnline's own policy and under its peers'."""
