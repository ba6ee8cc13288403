"""What may be swept cannot be committed any more, whatever the age is set to."""

from __future__ import annotations

import pytest
from firnline_domain.commits.output_lifetimes import Lifetimes


@pytest.mark.parametrize("age_s", [0.5, 60.0, 3_600.0, 86_400.0, 1e7])
def test_the_last_commit_is_sent_long_before_the_first_sweep(age_s: float) -> None:
    lives = Lifetimes(age_s)
    last_sent = lives.result_ms + lives.send_ms
    assert lives.sweep_ms - last_sent >= 3 * lives.sweep_ms // 8 - 1


def test_the_defaults() -> None:
    lives = Lifetimes()
    assert (lives.sweep_ms, lives.result_ms, lives.send_ms) == (86_400_000, 43_200_000, 600_000)
