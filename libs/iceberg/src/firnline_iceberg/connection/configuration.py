"""Find the catalogs: in `firnline.toml`, in variables, and in PyIceberg's own settings of the same
names.

| where | |
| --- | --- |
| `FIRNLINE_CATALOG__LAKE__S3__ENDPOINT` | `s3.endpoint` of the catalog `lake` |
| `[catalogs.lake]` in the file of FIRNLINE_CONFIG | |
| `PYICEBERG_CATALOG__LAKE__...`, `.pyiceberg.yaml` | for catalogs that one of the two above names |
| `FIRNLINE_CATALOG_URI` | alone: one catalog, `lake`, without credentials |

What is further up in the table wins.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from firnline_adapters.config.config_file import ConfigFile, learn_properties, read_config
from firnline_adapters.config.fleet_settings import CATALOG_URI
from firnline_adapters.config.references import Unresolved, resolve_reference
from firnline_domain.errors import Misconfigured

from firnline_iceberg.connection.connection import NAME, CatalogConnection

OURS: Final = "FIRNLINE_CATALOG__"
THEIRS: Final = "PYICEBERG_CATALOG__"
YAML: Final = ".pyiceberg.yaml"
Connections = Mapping[str, CatalogConnection]


def connections_here(environment: Mapping[str, str] = os.environ) -> Connections:
    """Read the catalogs that FIRNLINE_CONFIG and the variables of the environment configure. Raises
    Misconfigured."""
    file = read_config(environment.get("FIRNLINE_CONFIG"), environment)
    return read_connections(file, environment.get(CATALOG_URI.variable), environment)


def read_connections(
    file: ConfigFile | None, uri: str | None = None, environment: Mapping[str, str] = os.environ
) -> Connections:
    """Return all catalogs by name; `uri`: the short form. Raises Misconfigured, naming each place
    and key that is wrong."""
    named = _of_environment(OURS, environment)
    tables = {} if file is None else file.catalogs
    lower = {name.lower() for name in tables}
    names = [*tables, *(name for name in named if name not in lower)]
    if uri:
        if names:
            raise Misconfigured(
                f"{CATALOG_URI.variable} (or --catalog with an address) and "
                f"{_describe_source(names[0], file)} both name a catalog: remove one of them"
            )
        return {NAME: _make_connection(NAME, {"uri": uri}, CATALOG_URI.variable)}
    if not names:
        return {}
    theirs, yaml_file = _of_pyiceberg(environment)
    found = {}
    for name in names:
        key = name.lower()
        given = {**theirs.get(key, {}), **tables.get(name, {}), **named.get(key, {})}
        sources = [_describe_source(name, file)] + [str(yaml_file)] * (key in theirs)
        found[name] = _make_connection(name, given, " and ".join(sources))
    return found


def single_connection(found: Connections) -> CatalogConnection:
    """Return the connection of a service that speaks to one catalog. Raises Misconfigured."""
    if len(found) == 1:
        return next(iter(found.values()))
    if found:
        raise Misconfigured(f"catalogs {', '.join(found)}: this service speaks to one")
    raise Misconfigured(
        f"no catalog is named: set FIRNLINE_CONFIG to a firnline.toml with [catalogs.NAME], or "
        f"{CATALOG_URI.variable} for one that asks for nothing"
    )


def _make_connection(name: str, properties: Mapping[str, str], source: str) -> CatalogConnection:
    learn_properties(properties)
    try:
        return CatalogConnection(name, properties)
    except Misconfigured as error:
        lines = str(error).splitlines()
        raise Misconfigured("\n".join(f"{source}: {one}" for one in lines)) from None


def _describe_source(name: str, file: ConfigFile | None) -> str:
    """Describe where a catalog is configured: the file and its section, or the variables."""
    if file is not None and name in file.catalogs:
        return f"{file.path}: [catalogs.{name}]"
    return f"{OURS}{name.upper().replace('-', '_')}__*"


def _of_environment(prefix: str, environment: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return catalog -> properties from variables in PyIceberg's form: `__` is a dot, `_` a
    hyphen."""
    found: dict[str, dict[str, str]] = {}
    for variable, value in environment.items():
        name, _, key = variable.upper().removeprefix(prefix).partition("__")
        if variable.upper().startswith(prefix) and key and value:
            words = (one.replace("__", ".").replace("_", "-").lower() for one in (name, key))
            catalog, word = words
            found.setdefault(catalog, {})[word] = _resolve_value(variable, word, value, environment)
    return found


def _resolve_value(variable: str, word: str, value: str, environment: Mapping[str, str]) -> str:
    if word == "warehouse":
        return value
    try:
        return resolve_reference(value, environment)
    except Unresolved as error:
        raise Misconfigured(f"{variable} ({error})") from None


def _of_pyiceberg(environment: Mapping[str, str]) -> tuple[dict[str, dict[str, str]], Path | None]:
    """Return catalog -> properties as PyIceberg would load them, and the file that it would read.
    Raises Misconfigured."""
    found: dict[str, dict[str, str]] = {}
    place = _yaml_file(environment)
    if place is not None:
        try:
            content = yaml.load(place.read_text(), yaml.BaseLoader)  # all values are texts
            catalogs = content.get("catalog") or {}
            found = {name.lower(): dict(_flatten(catalogs[name])) for name in catalogs}
        except (OSError, UnicodeDecodeError, yaml.YAMLError, AttributeError, TypeError) as error:
            where = getattr(error, "problem_mark", None)  # the text may quote a secret
            raise Misconfigured(
                f"{place}: not PyIceberg's settings {where or ''}".strip()
            ) from None
    for name, properties in _of_environment(THEIRS, environment).items():
        found[name] = {**found.get(name, {}), **properties}
    return found, place


def _yaml_file(environment: Mapping[str, str]) -> Path | None:
    home = environment.get("HOME") or os.path.expanduser("~")
    folders = (environment.get("PYICEBERG_HOME"), home, os.getcwd())
    files = (Path(folder, YAML) for folder in folders if folder)
    return next((file for file in files if file.is_file()), None)


def _flatten(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", str(value)
