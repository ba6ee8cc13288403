"""Resource groups: which a fleet has, and what each may spend. Pure
(docs/operate/scale.md).

The default group has the name '' and is always there; people may write `default` for it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from firnline_domain.base.numbers import parse_number
from firnline_domain.base.values import Value
from firnline_domain.errors import Misconfigured

VARIABLE = "FIRNLINE_GROUPS"
LEAST_GB_HOURS = 1e-6  # a bucket's part of less may be 0, which is any number
DEFAULT, DEFAULT_IN_WORDS = "", "default"
FORM = re.compile(r"[a-z0-9][a-z0-9-]{0,39}", re.ASCII)  # part of the names of topics
FORM_IN_WORDS = (
    "1 to 40 small letters, digits and hyphens, the first one no hyphen, "
    "as in etl=2.5,adhoc (a number is a quota, in GB-hours an hour)"
)


class Budget(Value):
    """GB-hours that may be spent in an hour; 0 = any number. `old_share`: of these, for whoever has
    waited longest."""

    gb_hours: float = 0.0
    old_share: float = 0.2

    @property
    def is_limited(self) -> bool:
        return self.gb_hours > 0

    def divide_by(self, of: float) -> Budget:
        """Return the budget of one of `of` equal parts."""
        return Budget(self.gb_hours / of, self.old_share)


class Group(Value):
    """One group, and the GB-hours its rewrites may take in an hour (`cost_model`); None = any."""

    name: str
    quota_gb_hours: float | None = None

    def divide_by(self, of: float) -> Group:
        """Return the group with its quota divided by `of`."""
        quota = self.quota_gb_hours
        return Group(self.name, None if quota is None else quota / of)


def parse_groups(text: str) -> tuple[Group, ...]:
    """Parse FIRNLINE_GROUPS, in its order; the default group only where it is named.

    Raises Misconfigured, with all that is wrong."""
    found, wrong = list[Group](), list[str]()
    for item in text.split(",") if text.strip() else ():
        try:
            found.append(_parse_group(item.strip()))
        except ValueError as error:
            wrong.append(str(error))
    names = [one.name for one in found]
    wrong += [f"{shown_name(name)!r} is there twice" for name in {*names} if names.count(name) > 1]
    if wrong:
        raise Misconfigured(f"{VARIABLE}: " + "; ".join(sorted(wrong)))
    return tuple(found)


def _parse_group(item: str) -> Group:
    name, has_quota, quota = (part.strip() for part in item.partition("="))
    if not FORM.fullmatch(name):
        raise ValueError(f"{item!r}: the name of a group is {FORM_IN_WORDS}")
    if not has_quota:
        return Group(canonical_name(name))
    found = parse_number(quota, is_whole=False)
    if found is None or found < LEAST_GB_HOURS:
        raise ValueError(
            f"{item!r}: {quota!r} is no number of GB-hours: a quota is above 0; without one a "
            "group spends what it likes"
        )
    return Group(canonical_name(name), found)


def group_name(variable: str, text: str) -> str:
    """Parse the name of a group. Raises Misconfigured."""
    name = canonical_name(text)
    if name != DEFAULT and not FORM.fullmatch(name):
        raise Misconfigured(f"{variable}={text!r}: the name of a group is {FORM_IN_WORDS}")
    return name


def canonical_name(text: str) -> str:
    """Return a group's name; `default` is ''."""
    name = text.strip()
    return DEFAULT if name == DEFAULT_IN_WORDS else name


def shown_name(name: str) -> str:
    """Return a group's name to show."""
    return name or DEFAULT_IN_WORDS


def serving_group(wanted: str, groups: Collection[Group]) -> str:
    """Return the group that gets the tasks of a table that asks for `wanted`: the default one if
    the deployment has no such group, because its topics do not exist."""
    name = canonical_name(wanted)
    return name if any(group.name == name for group in groups) else DEFAULT


def unserved_text(wanted: str, groups: Collection[Group]) -> str | None:
    """Describe what happens to tasks whose group the deployment does not have; None if it has
    it."""
    if serving_group(wanted, groups) == canonical_name(wanted):
        return None
    there = ", ".join(sorted(shown_name(name) for name in {DEFAULT, *group_names(groups)}))
    return f"no such group in this deployment (it has: {there}); tasks go to the default group"


def group_names(groups: Collection[Group]) -> Iterator[str]:
    """Yield the names of all groups but the default one, each once."""
    return (name for name in dict.fromkeys(group.name for group in groups) if name != DEFAULT)
