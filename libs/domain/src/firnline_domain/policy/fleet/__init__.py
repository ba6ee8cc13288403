"""Rules about more than one table: holds, placement, lanes, worker memory."""
