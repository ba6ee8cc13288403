"""Read model, JSON API and web page."""
