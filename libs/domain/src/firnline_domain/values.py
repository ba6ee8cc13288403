"""What every value of the domain is: named fields that cannot change, equal where they are.

The one module that knows msgspec (docs/decisions/0019): its structs are built, compared, copied and
read from bytes in C, and one event makes some two hundred of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, dataclass_transform

from msgspec import Struct, field
from msgspec.structs import asdict

if TYPE_CHECKING:
    from dataclasses import replace  # the same signature, and its arguments are type-checked
else:
    from msgspec.structs import replace

_LEAVES = frozenset({int, str, bytes, bool, float, type(None)})

__all__ = ["Value", "field", "replace", "to_plain"]


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Value(Struct, frozen=True, omit_defaults=True, gc=False):
    """A frozen value. Written down, a field that has its default takes no room, so that a new
    field with a default is no new version."""


def to_plain(value: Any) -> Any:
    """Dicts and lists all the way down, every field named, as writers of Avro and JSON take them.
    Nothing is copied that cannot change."""
    if type(value) in _LEAVES:
        return value
    if isinstance(value, Struct):
        return {name: to_plain(item) for name, item in asdict(value).items()}
    if isinstance(value, dict):
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [to_plain(item) for item in value]
    return value
