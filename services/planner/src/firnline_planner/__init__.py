"""FilesChanged -> counters -> orders."""
