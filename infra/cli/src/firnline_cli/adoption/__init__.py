"""Tables that were there before Firnline: found, ranked, and had counted by the planner."""
