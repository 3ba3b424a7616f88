"""Checks: what must be true of one answer. Each is a function of a `Trial` that returns what is wrong, or None. Pure.

Where an answer may be right in several ways (an error event, a cut connection, both), every one of them passes: what
counts is that the client can tell.
"""
