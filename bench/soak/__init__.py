"""Soak: mixed load for a long time on a real gateway to which things are done, and what must be true of it then."""
