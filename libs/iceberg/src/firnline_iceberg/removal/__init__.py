"""Remove files: orphans, sweeps, quarantine."""
