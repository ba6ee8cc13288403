"""Sweeps and sampled comparisons between commits."""
