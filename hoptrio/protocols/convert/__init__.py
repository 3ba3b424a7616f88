"""Conversion between protocols, for a client whose model is on a channel of another one. Sans-IO; no pairwise code."""

from hoptrio.protocols.convert.reader import Converted, ConvertingReader, possible, read, reader

__all__ = ["Converted", "ConvertingReader", "possible", "read", "reader"]
