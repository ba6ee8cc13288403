"""The site has every page in its menu, and links that leave it are rewritten."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[1]
SITE = runpy.run_path(str(ROOT / "docs/site_links.py"))


def test_every_page_is_in_the_menu() -> None:
    menu = set(re.findall(r": ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    pages = {str(page.relative_to(ROOT / "docs")) for page in ROOT.glob("docs/**/*.md")}
    assert {page for page in pages if not re.match(r"decisions/\d", page)} == menu


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


def test_the_menu_is_listed_for_language_models() -> None:
    home = SimpleNamespace(is_section=False, title="Home", url="")
    page = SimpleNamespace(is_section=False, title="Quick start", url="get-started/quick-start/")
    section = SimpleNamespace(is_section=True, title="Get started", children=[page])
    expected = "- [Home](./)\n\n## Get started\n\n- [Quick start](get-started/quick-start/)\n"
    assert SITE["list_pages"]([home, section]) == expected
