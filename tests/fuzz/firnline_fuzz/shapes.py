"""Tables of every shape that docs/reference/compatibility.md names, each built by hand."""

from __future__ import annotations

from firnline_fuzz import delete_shapes, file_shapes, schema_shapes  # they register theirs
from firnline_fuzz.maker import SHAPES

__all__ = ["SHAPES", "delete_shapes", "file_shapes", "schema_shapes"]
