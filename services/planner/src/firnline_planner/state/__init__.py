"""What one bucket keeps, and how it is written down."""
