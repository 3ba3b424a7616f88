"""A channel's bytes to calls of the neutral vocabulary, a module a protocol."""
