"""The firnline command."""
