"""Fuzzers: bytes that nobody would send, at the four places where strangers' bytes come in (`python -m tests.fuzz`).

Each target is a function of bytes with an invariant in one sentence; it raises where the invariant is broken. Atheris
drives it by coverage; what once broke it, and what reached new code, is kept in ``corpus/`` and played by the suite.
"""
