"""One spelling for one file."""

from __future__ import annotations

import pytest
from firnline_domain.identity import normal_path


@pytest.mark.parametrize(
    ("spelt", "normal"),
    [
        ("file:/w/t/a", "file:///w/t/a"),
        ("file:///w/t/a", "file:///w/t/a"),
        ("s3a://b/t//a%2Fb", "s3://b/t//a%2Fb"),
        ("s3n://b/t/a", "s3://b/t/a"),
        ("s3://b/t/a", "s3://b/t/a"),
        ("s3ab://b/t/a", "s3ab://b/t/a"),
        ("gs://b/t/a", "gs://b/t/a"),
        ("/w/t/a", "/w/t/a"),
    ],
)
def test_spellings_of_one_file(spelt: str, normal: str) -> None:
    assert normal_path(spelt) == normal
