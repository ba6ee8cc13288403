"""Names of lease owners that outlive their process: `seat#life/task`."""

from __future__ import annotations


def owner_of(seat: str, life: str) -> str:
    """Of all leases of one life; each task adds a name of its own behind a slash."""
    return f"{seat}#{life}"


def succeeds(owner: str, held_by: str) -> bool:
    """Whether `owner` is another life of the seat that `held_by` sat in."""
    seat, sign, life = owner.partition("/")[0].partition("#")
    their_seat, their_sign, their_life = held_by.partition("/")[0].partition("#")
    return bool(sign and their_sign) and seat == their_seat and life != their_life
