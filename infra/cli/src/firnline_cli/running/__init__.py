"""One action on one table: chosen by the policy, carried out here or ordered of a fleet."""
