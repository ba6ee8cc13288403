"""What may be committed onto a head, and how."""
