"""The provider: h11 as a client on trio, with its own connection pool. The only importer of ``h11.CLIENT``."""
