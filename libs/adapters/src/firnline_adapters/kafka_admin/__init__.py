"""Topics, replication and ACLs of the fleet."""
