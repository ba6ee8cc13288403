"""Settings of a service: environment, firnline.toml, secrets, TLS."""
