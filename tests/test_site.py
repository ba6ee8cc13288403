"""Links that leave the site are rewritten."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SITE = runpy.run_path(str(ROOT / "docs/site_links.py"))


@pytest.mark.parametrize(
    ("page", "text", "relinked"),
    [
        ("README.md", "[a](contribute/testing.md)", "[a](contribute/testing.md)"),
        ("contribute/style.md", "[a](../../SECURITY.md#x)", "[a](../project/SECURITY.md#x)"),
        ("contribute/testing.md", "[a](../../tests/kit)", "a"),
        ("project/SECURITY.md", "[a](docs/contribute/style.md)", "[a](../contribute/style.md)"),
        ("project/bench/results/soak.md", "![a](soak.svg)", "![a](soak.svg)"),
        ("README.md", "```\n[a](../tests/kit)\n```", "```\n[a](../tests/kit)\n```"),
        ("README.md", "[a](https://x.org) [b](#c)", "[a](https://x.org) [b](#c)"),
        ("README.md", "[a](no-such.md)", "[a](no-such.md)"),
    ],
)  # fmt: skip
def test_links_lead_to_pages_of_the_site(page: str, text: str, relinked: str) -> None:
    assert SITE["relink"](page, text) == relinked
