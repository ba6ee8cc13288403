"""Records on the wire: codec, size limits, signatures."""
