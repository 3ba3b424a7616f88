"""Calls of the neutral vocabulary to a client's stream, a module a protocol."""
