"""Conversion between protocols, for a client whose model is on a channel of another one. Sans-IO; no pairwise code."""
