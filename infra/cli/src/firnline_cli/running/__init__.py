"""One action on one table: chosen by the policy, carried out in this process or ordered from a
fleet."""
