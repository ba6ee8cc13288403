"""Rules for what may be committed onto a head, and how."""
