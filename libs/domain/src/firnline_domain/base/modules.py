"""Import what lies in a package: a registry finds its entries there, so no list names them."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType


def import_modules(package: str) -> list[ModuleType]:
    """Import every module of a package, and return them by name."""
    names = sorted(one.name for one in iter_modules(import_module(package).__path__))
    return [import_module(f"{package}.{name}") for name in names]
