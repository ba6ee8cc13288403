"""Writers, faults and invariants: everything at once on the whole embedded stack, from a seed."""
