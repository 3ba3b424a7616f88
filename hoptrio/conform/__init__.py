"""Conformance: known faults of streaming gateways, tried on any gateway from outside.

The gateway under test has our `upstream` as its provider and our `client` as its client, so both of its sides are
seen. Reading order: `case` (a fault and what is right), `cases` (all of them), `target` (the gateway), `request` (what
is asked), `wire` (what came back), `checks` (what must be true of it), `books` (what must be true of the money),
`run` (the driver), `report`.

Nothing here knows which gateway it is: what a case demands is what clients and payers need, and where gateways may
choose, the choice is a verdict of its own.
"""
