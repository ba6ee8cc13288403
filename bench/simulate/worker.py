"""Which files Firnline's worker takes, for many units at once. A test holds it to the worker's own
planning."""

from __future__ import annotations

import numpy as np
from firnline_domain.policy.cost.cost_benefit import Action

from bench.simulate.fleet import Flags, Floats
from bench.simulate.lake import FRAGMENT, UNDERSIZED, Held
from bench.simulate.parameters import Parameters
from bench.simulate.tasks import Choice

MAX_POSITION_FILES = 4  # of the worker's planning
ROW_BYTES = Parameters().row_bytes


def chosen_by_worker(held: Held, actions: np.ndarray, ratios: Floats, target: float) -> Choice:
    """What the worker takes (`planning.plan`): fragments that a delete applies to, or of which
    there are two; larger files from a share of dead rows on; where small ones fill a file, for a
    conversion or a merge also the undersized. A conversion leaves other files where they are; a
    full rewrite takes all."""
    there = held.files > 1e-6
    reached, masked = there & (held.reach > 0), there & (held.positions > 1e-6)
    converts = np.asarray(actions == Action.CONVERT)[:, None]
    merges = np.asarray(actions == Action.MERGE)[:, None]
    full = np.asarray(actions == Action.FULL)[:, None]
    compacts = ~converts & ~merges & ~full
    small = np.zeros_like(there)
    small[:, FRAGMENT] = True
    dead = (reached | masked) & (small | (dead_ratios(held) >= ratios[:, None]))
    fills = _fills(held, target)[:, None] & ~compacts
    many = held.files[:, FRAGMENT].sum(axis=1) > 1
    merged = small & (many[:, None] | fills)
    merged[:, UNDERSIZED] |= fills
    chosen = there & (merged | dead)
    crowded = held.positions > MAX_POSITION_FILES * held.files
    kept = converts & there & ~chosen & (reached | crowded)
    whole = compacts & (ratios <= 0)[:, None]
    chosen |= whole & reached
    # A merge that does not lessen the files changes nothing, and the worker leaves them.
    alone = ~(dead | (whole & reached)).any(axis=1) & ((held.files * chosen).sum(axis=1) < 1.5)
    chosen = np.where(full, there, chosen & ~alone[:, None])
    clears = converts[:, 0] | whole[:, 0] | full[:, 0]
    return Choice(chosen.astype(float), kept.astype(float), clears)


def dead_ratios(held: Held) -> Floats:
    """As the worker takes them for: positions are known, and each key of an equality delete hits
    one row of all that it reaches (`dead_ratios`)."""
    size = held.bytes
    rows = np.where(held.reach > 0, size, 0.0).sum(axis=1)
    hits = held.reach_records / np.maximum(rows, 1.0)[:, None] * ROW_BYTES
    return np.asarray(1 - (1 - held.masked) * np.exp(-hits))


def _fills(held: Held, target: float) -> Flags:
    under = held.files[:, UNDERSIZED].sum(axis=1)
    under_bytes = held.bytes[:, UNDERSIZED].sum(axis=1)
    files = held.files[:, FRAGMENT].sum(axis=1) + under
    size = held.bytes[:, FRAGMENT].sum(axis=1) + under_bytes
    pairs = (under > 0) & (2 * under_bytes < target * under)
    return np.asarray((files > 1) & (size >= target) & ((under < 1e-6) | pairs))
