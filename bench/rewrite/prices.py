"""What reads and rewrites of small tables cost, and the constants that explain it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from firnline_domain.policy.cost.cost_benefit import READ_COST
from firnline_domain.policy.cost_model import FIRNLINE

OFF = 0.25  # a constant in the code that is further from what was measured is wrong
ROW_BYTES = 30.0  # of these tables


@dataclass(frozen=True)
class Amounts:
    """What is read, by what it is charged for. Of a rewrite `bytes` are those of the key columns
    where it is a conversion, and those of all columns else."""

    files: float = 0.0  # data files
    bytes: float = 0.0  # without those of rows that position deletes mask
    delete_files: float = 0.0
    deletes: float = 0.0  # equality deletes, each once
    loads: float = 0.0  # equality deletes times the data files that they reach
    positions: float = 0.0  # rows that position-delete files mask
    vector_positions: float = 0.0  # rows that deletion vectors mask
    written: float = 0.0  # bytes


@dataclass(frozen=True)
class Measured:
    """One case: its amounts, and CPU seconds of each round."""

    name: str
    amounts: Amounts
    cpu_s: tuple[float, ...]

    @property
    def least_s(self) -> float:
        """Of all rounds. What the neighbours of a busy machine add is never negative."""
        return min(self.cpu_s)

    def beside(self, other: Measured) -> Measured:
        """Of both processes together."""
        both = tuple(a + b for a, b in zip(self.cpu_s, other.cpu_s, strict=True))
        return Measured(self.name, self.amounts, both)

    def as_json(self) -> dict[str, Any]:
        amounts = {name: round(value, 1) for name, value in asdict(self.amounts).items() if value}
        return {"name": self.name, "amounts": amounts, "cpu_s": list(self.cpu_s)}


def fit(cases: Sequence[Measured], terms: Sequence[str]) -> dict[str, float]:
    """CPU seconds per unit of each term, and `fixed`: least squares of the relative errors, where
    nothing may be negative."""
    rows = np.array([[1.0, *(getattr(case.amounts, term) for term in terms)] for case in cases])
    took = np.array([case.least_s for case in cases])
    rows /= took[:, None]
    scale = np.maximum(np.abs(rows).max(axis=0), 1e-30)
    used = list(range(rows.shape[1]))
    found = np.zeros(0)
    while used:
        found = np.linalg.lstsq(rows[:, used] / scale[used], np.ones(len(cases)), rcond=None)[0]
        if (found >= 0).all():
            break
        used.pop(int(found.argmin()))
    prices = dict.fromkeys(("fixed", *terms), 0.0)
    for index, price in zip(used, found, strict=True):
        prices[("fixed", *terms)[index]] = float(price / scale[index])
    return prices


def foretold(prices: Mapping[str, float], amounts: Amounts) -> float:
    """CPU seconds."""
    each = asdict(amounts)
    return sum(price * float(each.get(term, 1.0)) for term, price in prices.items())


def off(measured: float, in_code: float) -> bool:
    """Whether the code's constant is more than `OFF` away from the measured one."""
    return abs(in_code - measured) > OFF * measured


def in_code() -> dict[str, dict[str, float]]:
    """The constants of the policy, by the names of the fits."""
    return {
        "read": {
            "files": READ_COST.open_s,
            "bytes": READ_COST.scan_s,
            "delete_files": READ_COST.open_s,
            "loads": READ_COST.load_s,
            "positions": READ_COST.position_s + ROW_BYTES * READ_COST.scan_s,
            "vector_positions": READ_COST.position_s + ROW_BYTES * READ_COST.scan_s,
        },
        "convert": {
            "bytes": FIRNLINE.read_s,
            "deletes": FIRNLINE.record_s,
            "files": FIRNLINE.convert_s,
        },
        "compact_worker": {"files": FIRNLINE.open_s},
    }
