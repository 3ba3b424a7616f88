"""hoptrio: a streaming gateway for LLM APIs on trio.

Reading order: `contract` (what is promised), `protocols` (what the bytes mean), `stream` (one stream, the heart),
`ledger` (settlement), `exchange` (one request from route to end), then the drivers `downstream` and `upstream`,
and `service`, which builds it all.
"""

__version__ = "0.1.0"
