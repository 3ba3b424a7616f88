"""A neutral conversation as a channel's body, one module a protocol."""
