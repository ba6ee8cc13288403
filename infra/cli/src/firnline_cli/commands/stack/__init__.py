"""Commands of the embedded stack."""
