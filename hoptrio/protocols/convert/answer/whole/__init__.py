"""Calls of the neutral vocabulary to one whole body."""
