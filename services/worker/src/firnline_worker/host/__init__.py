"""The worker's host: slot, leases, heartbeats, memory."""
