"""The age from which outputs may be swept."""

from __future__ import annotations

import os

from firnline_domain.commits.output_lifetimes import SWEEP_AGE_S


def fleets_age_s() -> float:
    """Return the age that the committers are configured with, in seconds."""
    return float(os.environ.get("FIRNLINE_SWEEP_AGE_SECONDS") or SWEEP_AGE_S)
