"""Parameters of a route's query. An unknown parameter or value is an error, never a filter that is
left out: a script with a misspelled name would act on all tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

SHOWN = 80  # characters of a refused value in a message


class Parameter(NamedTuple):
    """One parameter: `read` returns its value, or raises BadParameter with what it takes."""

    name: str
    read: Callable[[str], Any]
    default: Any = None


class BadParameter(ValueError):
    """The error of a query parameter; its text says what is wrong."""


def number_from(least: int, most: int) -> Callable[[str], int]:
    """Return a reader of whole numbers of that range, both ends included."""

    def read(text: str) -> int:
        # The length first: int() refuses thousands of digits by itself.
        if text.isascii() and text.isdecimal() and len(text.lstrip("0")) <= len(str(most)):
            number = int(text)
            if least <= number <= most:
                return number
        raise BadParameter(f"a whole number from {least:,} to {most:,}")

    return read


def one_of(values: Iterable[str]) -> Callable[[str], str]:
    """Return a reader of the values of a closed list."""
    known = tuple(values)

    def read(text: str) -> str:
        if text not in known:
            raise BadParameter(f"one of {', '.join(known)}")
        return text

    return read


def some_text(text: str) -> str:
    """Read a text that is not empty. Raises BadParameter."""
    if not text:
        raise BadParameter("a text that is not empty; leave the parameter out to choose all")
    return text


def read_parameters(
    given: Iterable[tuple[str, str]], declared: Mapping[str, Parameter]
) -> dict[str, Any]:
    """Return the value of each declared parameter. Raises BadParameter for one that is not
    declared, that is given twice, or whose value is not one that it takes."""
    values = {name: parameter.default for name, parameter in declared.items()}
    seen = set[str]()
    for name, text in given:
        if name not in declared:
            known = f"known are {', '.join(declared)}" if declared else "this address takes none"
            raise BadParameter(f"parameter {name[:SHOWN]!r} is not known: {known}")
        if name in seen:
            raise BadParameter(f"parameter {name} is given twice: give it once")
        seen.add(name)
        try:
            values[name] = declared[name].read(text)
        except BadParameter as error:
            raise BadParameter(f"{name} is {error}, not {text[:SHOWN]!r}") from None
    return values
