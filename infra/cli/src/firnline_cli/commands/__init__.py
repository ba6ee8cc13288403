"""The commands, in the groups of `firnline --help`."""
