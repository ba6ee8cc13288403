"""Settings come from the environment once, into one frozen dataclass per service.

A field's metadata says its variable, its meaning and whether it is a secret:

    @dataclass(frozen=True)
    class Settings:
        kafka: str = setting("FIRNLINE_KAFKA", "Kafka bootstrap servers, host:port[,...].")
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from firnline_domain.errors import Misconfigured
from firnline_domain.redaction import MASK

from firnline_adapters import redaction

T = TypeVar("T")
_MISSING = dataclasses.MISSING
_TRUE = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


def setting(variable: str, about: str, default: Any = _MISSING, secret: bool = False) -> Any:
    """A dataclass field that is read from `variable`; required where it has no default."""
    metadata = {"variable": variable, "about": about, "secret": secret}
    if default is _MISSING:
        return dataclasses.field(metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def from_environment(settings: type[T], environment: Mapping[str, str]) -> T:
    """Build a settings dataclass; its secrets, and all others of the environment, are masked in
    what this process says from now on. Raises Misconfigured, naming every variable that is wrong.
    """
    redaction.learn_environment(environment)
    hints = typing.get_type_hints(settings)
    values: dict[str, Any] = {}
    wrong: list[str] = []
    for field in dataclasses.fields(settings):  # type: ignore[arg-type]
        variable = field.metadata["variable"]
        text = environment.get(variable, "")
        if text:
            if field.metadata.get("secret"):
                redaction.learn([text])
            try:
                values[field.name] = _parse(text, hints[field.name])
            except ValueError as error:
                wrong.append(redaction.redacted(f"{variable}={text!r}: {error}"))
        elif field.default is _MISSING:
            wrong.append(f"{variable} is not set: {field.metadata['about']}")
    if wrong:
        raise Misconfigured("set these and start again:\n  " + "\n  ".join(wrong))
    return settings(**values)


def _parse(text: str, kind: Any) -> Any:
    options = [item for item in typing.get_args(kind) if item is not type(None)]
    target = options[0] if options else kind
    if target is bool:
        if text.lower() not in _TRUE:
            raise ValueError("say true or false")
        return _TRUE[text.lower()]
    return target(text)


def shown(settings: Any) -> dict[str, str]:
    """Field name -> value for the log, secrets masked, also those inside of URIs."""
    return {
        field.name: MASK
        if field.metadata.get("secret")
        else redaction.redacted(str(getattr(settings, field.name)))
        for field in dataclasses.fields(settings)
    }
