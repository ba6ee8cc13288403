"""Views of the read model."""
