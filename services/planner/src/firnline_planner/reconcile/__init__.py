"""From a table that changed to orders, advice and a published state."""
