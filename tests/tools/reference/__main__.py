"""Write the tables of docs/reference from the code."""

from __future__ import annotations

from tests.tools.reference.pages import FOLDER, generated


def main() -> None:
    """Write each page again with its tables as the code has them now."""
    for path in FOLDER.glob("*.md"):
        path.write_text(generated(path.read_text()))


if __name__ == "__main__":
    main()
