"""State that one bucket keeps, and its encoding."""
