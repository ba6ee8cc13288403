"""Units of a simulated lake, made by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bench.simulate.lake import (
    BYTES,
    COHORTS,
    FIELDS,
    FILES,
    MASKED,
    POSITIONS,
    SEEN,
    SEEN_RECORDS,
    Held,
)
from bench.simulate.parameters import MB

# Cohort, files, MB of each, equality deletes that reach them, position deletes of each file, and
# the share of their rows that these mask.
Cohort = tuple[int, float, float, float, float, float]
RECORDS = 10.0  # of an equality delete


def held(cohorts: Sequence[Cohort]) -> Held:
    """One unit."""
    made = np.zeros((FIELDS, 1, COHORTS))
    came = max(reach for _, _, _, reach, _, _ in cohorts)
    for cohort, files, size, reach, positions, masked in cohorts:
        made[FILES, 0, cohort] = files
        made[BYTES, 0, cohort] = files * size * MB
        made[POSITIONS, 0, cohort] = files * positions
        made[MASKED, 0, cohort] = files * size * MB * masked
        made[SEEN, 0, cohort] = came - reach
        made[SEEN_RECORDS, 0, cohort] = (came - reach) * RECORDS
    return Held(made, np.array([[came], [came * RECORDS]]), np.zeros((2, 1)))
