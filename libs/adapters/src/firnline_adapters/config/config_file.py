"""`firnline.toml`: catalogs, Kafka, Spark, Redis and sources, each in its own words, for all
services; and policies, which may change while they run (`policy_file`).

    [catalogs.lake]                 # any number; PyIceberg's and Iceberg's properties
    uri = "https://gateway:8181"
    credential = "file:/run/secrets/lake"
    s3.endpoint = "http://127.0.0.1:7070"

    [kafka]                         # librdkafka's
    bootstrap.servers = "broker:9093"
    sasl.password = "${KAFKA_PASSWORD}"

    [spark]                         # any spark.*
    spark.executor.memory = "2g"

    [redis]
    url = "rediss://..."

    [sources.webhooks]              # any number; the listener's sources of doorbells
    type = "http"
    key = "${WEBHOOK_KEY}"

Dotted keys may be quoted or not. A value may be `${VARIABLE}` or `file:/path`.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from firnline_domain.errors import Misconfigured

from firnline_adapters.config.redaction import SECRET_NAME, mask_environment, mask_secrets
from firnline_adapters.config.references import Unresolved, expand_variables, resolve_reference
from firnline_adapters.config.settings import Setting

CONFIG: Final = Setting(
    "FIRNLINE_CONFIG",
    "Path of `firnline.toml` with catalogs and their credentials, properties of Kafka, Spark "
    "and Redis, and the listener's sources.",
    None,
)
MAX_LEVELS = 30  # of a name, at least
TABLE_LISTS: Final = ("policies", "rules")  # read by `policy_file`
SECTIONS: Final = ("catalogs", "kafka", "spark", "redis", "sources", *TABLE_LISTS)
# Variables that the file may say instead: variable -> section, key.
INSTEAD: Final = {
    "FIRNLINE_KAFKA": ("kafka", "bootstrap.servers"),
    "FIRNLINE_REDIS": ("redis", "url"),
}
PLACES: Final = frozenset({"warehouse"})  # where `file:` is where something is, not a reference
HARMLESS_HEADERS: Final = frozenset({"header.x-iceberg-access-delegation", "header.user-agent"})
Properties = Mapping[str, str]


@dataclass(frozen=True)
class ConfigFile:
    """Content of the file. It contains secrets, so it has no text of its own. Kafka's values are as
    they stand (`connection` resolves them)."""

    path: str
    catalogs: Mapping[str, Properties] = field(default_factory=dict, repr=False)
    kafka: Properties = field(default_factory=dict, repr=False)
    spark: Properties = field(default_factory=dict, repr=False)
    redis: Properties = field(default_factory=dict, repr=False)
    sources: Mapping[str, Properties] = field(default_factory=dict, repr=False)


def read_config(path: str | None, environment: Mapping[str, str] = os.environ) -> ConfigFile | None:
    """Read the file; None without a path. Raises Misconfigured, naming the file and each key that
    is wrong."""
    if not path:
        return None
    found = parse_toml(path)
    wrong = unknown_sections(found)
    wrong += [
        f"{name}: write [{name}]"
        for name, one in found.items()
        if name not in TABLE_LISTS and not isinstance(one, dict)
    ]
    tables = {name: one for name, one in found.items() if isinstance(one, dict)}
    catalogs = _read_tables(tables, "catalogs", environment, wrong)
    sources = _read_tables(tables, "sources", environment, wrong)
    spark = _read_properties(tables.get("spark", {}), "[spark]", environment, wrong)
    redis = _read_properties(tables.get("redis", {}), "[redis]", environment, wrong)
    wrong += [f"[spark] {name}: not a spark.* property" for name in spark if name[:6] != "spark."]
    wrong += [f"[redis] {name}: url is all that it has" for name in redis if name != "url"]
    kafka = dict(flatten(tables.get("kafka", {}), "[kafka]", wrong))
    if wrong:
        raise Misconfigured("\n".join(f"{path}: {one}" for one in wrong))
    return ConfigFile(path, catalogs, kafka, spark, redis, sources)


def with_config(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with the variables that its configuration file sets instead. Raises
    Misconfigured if the file is not readable, or if both set a variable to different values."""
    found = dict(environment)
    file = read_config(environment.get(CONFIG.variable), environment)
    for variable, (section, key) in INSTEAD.items():
        table: Properties = {} if file is None else getattr(file, section)
        if not (said := table.get(key)):
            continue
        assert file is not None
        if found.get(variable, said) not in ("", said):
            raise Misconfigured(
                f"{variable} and {key} in [{section}] of {file.path} differ: take one of them out"
            )
        found[variable] = said
    return found


def learn_properties(properties: Properties) -> None:
    """Mask the secrets among these from now on, in all output of this process."""
    mask_environment(properties)
    for name, value in properties.items():
        if name.startswith("header.") and name.lower() not in HARMLESS_HEADERS:
            mask_secrets([value, value.rpartition(" ")[2]])  # also without `Basic` or `Bearer`
        if name == "credential":
            mask_secrets([value.partition(":")[2]])  # a client's id and its secret
        if name == "firnline.callers":
            lines = (line.split() for line in value.splitlines())
            mask_secrets(one for who, *rest in filter(None, lines) if who[0] != "#" for one in rest)


def parse_toml(path: str) -> dict[str, Any]:
    """Parse a file. Raises Misconfigured."""
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise Misconfigured(f"{CONFIG.variable}={path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # of the syntax, a number, the nesting
        raise Misconfigured(f"{path}: {error}") from None


def unknown_sections(found: Mapping[str, Any]) -> list[str]:
    """Describe each section of a file that no service reads."""
    known = ", ".join(f"[{one}]" for one in SECTIONS)
    return [
        f"[{name}]: no such section; there are {known}" for name in found if name not in SECTIONS
    ]


def _read_tables(
    tables: Mapping[str, Any], section: str, environment: Mapping[str, str], wrong: list[str]
) -> dict[str, Properties]:
    """Return the properties of each [section.NAME]."""
    found = dict[str, Properties]()
    for name, table in tables.get(section, {}).items():
        if isinstance(table, dict):
            found[name] = _read_properties(table, f"[{section}.{name}]", environment, wrong)
        else:
            wrong.append(f"[{section}] {name}: write [{section}.NAME]")
    return found


def _read_properties(
    table: Mapping[str, Any], section: str, environment: Mapping[str, str], wrong: list[str]
) -> dict[str, str]:
    """Return the section's keys as dotted names, and its values resolved; those of secrets are
    masked in all output of this process."""
    found = dict[str, str]()
    for name, value in flatten(table, section, wrong):
        is_place = name in PLACES or (section == "[spark]" and not SECRET_NAME.search(name))
        try:
            found[name] = (expand_variables if is_place else resolve_reference)(value, environment)
        except Unresolved as error:
            wrong.append(f"{section} {name} ({error})")
            continue
        learn_properties({name: found[name]})
    return found


def flatten(
    table: Mapping[str, Any], section: str, wrong: list[str], prefix: str = ""
) -> Iterator[tuple[str, str]]:
    """Yield the pairs of a section with dotted names: for TOML an unquoted `s3.endpoint` is a table
    in a table. Append to `wrong` what has no text form, and names that occur twice."""
    seen = set[str]()
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and name.count(".") >= MAX_LEVELS:
            wrong.append(f"{section} {name}: write a name of fewer levels")
            continue
        pairs = [*flatten(value, section, wrong, f"{name}.")] if isinstance(value, dict) else []
        if isinstance(value, bool):
            pairs = [(name, str(value).lower())]
        elif isinstance(value, str | int | float):
            pairs = [(name, str(value))]
        elif not isinstance(value, dict):
            wrong.append(f"{section} {name}: write a text, a number, true or false")
        for pair in pairs:
            if pair[0] in seen:
                wrong.append(f"{section} {pair[0]} is there twice")
            seen.add(pair[0])
            yield pair
