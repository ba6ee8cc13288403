"""The proof of a rewrite: of every group, rows in - rows masked = rows out, in number and by keys.

The worker refuses its own result where this does not hold, and the committer asks once more before
it commits: whatever happened to a result on its way, a group that does not balance never lands.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from firnline_domain.base.values import Value
from firnline_domain.records.results import KeyChecksums, RewriteGroup

_SUMS = 1 << 64

Unbalanced = Literal["rows_do_not_add_up", "keys_do_not_add_up"]


class Flaw(Value):
    """Numbers that do not add up."""

    reason: Unbalanced
    detail: str


def find_flaw(groups: Iterable[RewriteGroup]) -> Flaw | None:
    """Return the first flaw in any group; None = all of them balance. Groups without checksums, as
    of tables without keys, stand on their rows."""
    for number, group in enumerate(groups):
        if text := _check_rows(group):
            return Flaw("rows_do_not_add_up", f"group {number}: {text}")
        if group.keys is not None and (text := _check_keys(group.keys)):
            return Flaw("keys_do_not_add_up", f"group {number}: {text}")
    return None


def _check_rows(group: RewriteGroup) -> str:
    recorded = sum(file.records for file in group.inputs)
    written = sum(file.records for file in group.outputs)
    if group.converts:
        return _check_conversion(group, recorded)
    if group.rows_in != recorded:
        return f"{group.rows_in} rows read of {recorded}"
    if not group.rows_in - group.rows_masked == group.rows_out == written:
        counted = f"{group.rows_in} - {group.rows_masked} = {group.rows_out} rows"
        return f"{counted}, {written} in the outputs"
    return ""


def _check_conversion(group: RewriteGroup, recorded: int) -> str:
    balanced = group.rows_in == recorded and group.rows_in - group.rows_masked == group.rows_out
    if balanced and not group.outputs:
        return ""
    counted = f"{group.rows_in} of {recorded}, - {group.rows_masked} = {group.rows_out} rows"
    return f"{counted}, {len(group.outputs)} outputs of a conversion"


def _check_keys(keys: KeyChecksums) -> str:
    try:
        read, masked, out = (
            int(text, 16) for text in (keys.rows_in, keys.rows_masked, keys.rows_out)
        )
    except ValueError:
        return f"checksums that are none: {keys}"
    if (read - masked) % _SUMS == out:
        return ""
    sums = f"{keys.rows_in} - {keys.rows_masked} = {(read - masked) % _SUMS:016x}"
    return f"keys {list(keys.field_ids)}: {sums}, {keys.rows_out} in the outputs"


def checksum_text(number: int) -> str:
    """Return a checksum as sixteen hexadecimal digits."""
    return f"{number % _SUMS:016x}"
