"""The fixtures of a trial."""

from __future__ import annotations

from firnline_actions.fixtures import ground
from firnline_fuzz.fixtures import fuzz_bench, fuzz_jvm, fuzz_shelf

__all__ = ["fuzz_bench", "fuzz_jvm", "fuzz_shelf", "ground"]
