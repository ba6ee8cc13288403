"""Sources of doorbells, one module each (`firnline_listener.port`)."""
