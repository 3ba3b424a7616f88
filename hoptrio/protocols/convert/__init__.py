"""Conversion between protocols, for a client whose model is on a channel of another one. Sans-IO; no pairwise code."""

from hoptrio.protocols.convert.reader import Converted, ConvertingReader, read, reader
from hoptrio.protocols.convert.request import NEAREST, Prepared, possible, prepare
from hoptrio.protocols.convert.unbox import boxed, unboxed

__all__ = [
    "NEAREST",
    "Converted",
    "ConvertingReader",
    "Prepared",
    "boxed",
    "possible",
    "prepare",
    "read",
    "reader",
    "unboxed",
]
