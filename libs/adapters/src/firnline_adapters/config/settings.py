"""Settings come from the environment once, into one frozen dataclass per service.

A field declares its variable, default, meaning and whether it is a secret:

    @dataclass(frozen=True)
    class GatewaySettings:
        kafka: str = declare_setting("FIRNLINE_KAFKA", "Kafka bootstrap servers, host:port[,...].")

The end of a variable's name is its unit (`UNITS`). A field without a variable is a constant that
tests give other values. The reference, `firnline settings` and the log of a start show these
declarations.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

from firnline_domain.errors import Misconfigured

from firnline_adapters.config import redaction
from firnline_adapters.config.redaction import MASK

T = TypeVar("T")
LOOPBACK = "127.0.0.1"
REQUIRED: Any = ...
_TRUE = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
UNITS = {"_SECONDS": "seconds", "_BYTES": "bytes", "_GB_HOURS": "GB-hours", "_SHARE": "0 to 1"}
# Reader of variables -> module and class of its settings; imported only when they are listed.
READERS = {
    service: (f"firnline_{service}.settings", f"{service.capitalize()}Settings")
    for service in ("gateway", "listener", "enricher", "planner", "worker", "committer", "console")
} | {"firnline": ("firnline_local.stack.settings", "LocalSettings")}


class ListenAddress(NamedTuple):
    """Address on which a service listens."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> ListenAddress:
        """Parse `host:port`; a port alone is on loopback. Raises ValueError."""
        host, _, port = text.rpartition(":")
        if not port.isdigit() or int(port) > 65_535:
            raise ValueError("write host:port, or a port of the loopback interface")
        return cls(host.strip("[]") or LOOPBACK, int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclasses.dataclass(frozen=True)
class Setting:
    """A variable as its readers declare it. `default` REQUIRED = it is required."""

    variable: str
    about: str
    default: Any = REQUIRED
    secret: bool = False
    services: tuple[str, ...] = ()

    @property
    def is_required(self) -> bool:
        return self.default is REQUIRED

    @property
    def unit(self) -> str:
        """Return the unit of the value, by the end of the variable's name; '' = a number of things,
        a name, an address ..."""
        return next((unit for end, unit in UNITS.items() if self.variable.endswith(end)), "")


def declare_setting(
    variable: str, about: str, default: Any = REQUIRED, secret: bool = False
) -> Any:
    """Declare a dataclass field that is read from `variable`; required where it has no default."""
    return shared_setting(Setting(variable, about, default, secret))


def shared_setting(setting: Setting, default: Any = REQUIRED) -> Any:
    """Declare a field of a setting that several services have, here with this default."""
    if default is not REQUIRED:
        setting = dataclasses.replace(setting, default=default)
    if setting.is_required:
        return dataclasses.field(metadata={"setting": setting})
    return dataclasses.field(default=setting.default, metadata={"setting": setting})


def declared_settings(settings: type[Any]) -> dict[str, Setting]:
    """Return field name -> setting for the fields of a settings class that are read from
    variables."""
    return {
        field.name: field.metadata["setting"]
        for field in dataclasses.fields(settings)
        if "setting" in field.metadata
    }


def all_settings() -> list[Setting]:
    """Return what all readers declare, by variable; two of one variable where they mean different
    things. Starts nothing."""
    found: dict[Setting, tuple[str, ...]] = {}
    for service, (module, name) in READERS.items():
        for setting in declared_settings(getattr(import_module(module), name)).values():
            found[setting] = (*found.get(setting, ()), service)
    together = [dataclasses.replace(one, services=services) for one, services in found.items()]
    return sorted(together, key=lambda one: (one.variable, one.services))


def from_environment(settings: type[T], environment: Mapping[str, str]) -> T:
    """Build a settings dataclass; its secrets, and all others of the environment, are masked in all
    output of this process from now on. Raises Misconfigured, naming every variable that is
    wrong."""
    redaction.mask_environment(environment)
    hints = typing.get_type_hints(settings)
    values: dict[str, Any] = {}
    wrong: list[str] = []
    for name, one in declared_settings(settings).items():
        text = environment.get(one.variable, "")
        if text:
            if one.secret:
                redaction.mask_secrets([text])
            try:
                values[name] = _parse_value(text, hints[name])
            except ValueError as error:
                wrong.append(redaction.redact(f"{one.variable}={text!r}: {error}"))
        elif one.is_required:
            wrong.append(f"{one.variable} is not set: {one.about}")
    if wrong:
        raise Misconfigured("set these and start again:\n  " + "\n  ".join(wrong))
    return settings(**values)


def _parse_value(text: str, kind: Any) -> Any:
    options = [item for item in typing.get_args(kind) if item is not type(None)]
    target = options[0] if options else kind
    if target is bool:
        if text.lower() not in _TRUE:
            raise ValueError("say true or false")
        return _TRUE[text.lower()]
    return target.parse(text) if target is ListenAddress else target(text)


def shown_settings(settings: Any) -> dict[str, Any]:
    """Return field name -> value to show, secrets masked, also those inside of URIs."""
    return {
        name: MASK if one.secret else _mask_value(getattr(settings, name))
        for name, one in declared_settings(type(settings)).items()
    }


def _mask_value(value: Any) -> Any:
    return redaction.redact(value) if isinstance(value, str) else value
