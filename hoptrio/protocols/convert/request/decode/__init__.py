"""A client's body as a neutral conversation, one module a protocol."""
