"""Commands that prepare a deployment."""
