"""Three writers, a model of their rows, and the check."""
