"""Tables under writers for as long as one likes, with Firnline and without: `make soak`."""
