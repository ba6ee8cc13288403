"""The firnline command. One module per command: `name.py` holds the click command `command`.

Modules whose name begins with an underscore are shared parts, not commands.
"""
