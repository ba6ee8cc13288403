"""Bring pages from outside of docs into the site, and unlink what the site does not contain.

In the repository a page may link to any file. mkdocs only knows files below docs.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
OUTSIDE = {
    str(path.relative_to(ROOT)): "project/" + str(path.relative_to(ROOT)).replace("README", "index")
    for path in [
        *(path for path in ROOT.glob("*.md") if path.stem != "README"),
        *ROOT.glob("tests/*/README.md"),
        *ROOT.glob("bench/results/*.md"),
    ]
}
"""Path in the repository -> path below docs."""

LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#:\s]*)(#[^)\s]*)?\)")
FENCED = re.compile(r"(```.*?```)", re.DOTALL)


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File  # only the environment of `make docs` has it

    for source, place in OUTSIDE.items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / source)))
    for picture in ROOT.glob("bench/results/*.svg"):
        place = f"project/{picture.relative_to(ROOT)}"
        files.append(File.generated(config, place, abs_src_path=str(picture)))
    return files


def find_target(page: str, link: str) -> str | None:
    """Return where a link of a page leads below docs, or None if the site does not contain it."""
    known = {place: source for source, place in OUTSIDE.items()}
    source = known.get(page, f"docs/{page}")
    target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
    if target in OUTSIDE:
        return OUTSIDE[target]
    if target.startswith("docs/") and (ROOT / target).is_file():
        return target.removeprefix("docs/")
    if target.endswith(".svg") and (ROOT / target).is_file():
        return f"project/{target}"
    return None if (ROOT / target).exists() else link


def relink(page: str, text: str) -> str:
    def replace(match: re.Match[str]) -> str:
        picture, label, link, anchor = match.groups()
        if not link:
            return match[0]
        target = find_target(page, link)
        if target is None:
            return str(label)
        path = target if target == link else posixpath.relpath(target, posixpath.dirname(page))
        return f"{picture}[{label}]({path}{anchor or ''})"

    parts = FENCED.split(text)  # every second one is code
    parts[::2] = [LINK.sub(replace, part) for part in parts[::2]]
    return "".join(parts)


def list_pages(items: Any) -> str:
    """Return the menu as llmstxt.org describes: a heading per section, and its pages as links."""
    return "".join(
        f"\n## {item.title}\n\n{list_pages(item.children)}"
        if item.is_section
        else f"- [{item.title}]({item.url or './'})\n"
        for item in items
    )


def on_nav(nav: Any, config: Any, files: Any) -> None:
    from mkdocs.structure.files import File

    text = f"# {config.site_name}\n\n> {config.site_description}\n\n{list_pages(nav.items)}"
    files.append(File.generated(config, "llms.txt", content=text))


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    return relink(page.file.src_uri, markdown)
