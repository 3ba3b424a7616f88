"""The splitter of a provider's events."""

from __future__ import annotations

from hoptrio.protocols.sse import Splitter
from tests.support.standard_sse import standard

INVARIANT = (
    "However a body is cut into reads its events are the same, and where no raw object stands in it they are the"
    " standard's."
)
SEEDS = [
    b"\x03data: a\n\n: c\n\nevent: e\r\ndata:b\rdata: c\r\n\r\n",
    b'\x01\xef\xbb\xbfid: 1\ndata: {"x":\ndata: 1}\n\nretry: 3\n\ndata: x',
    b'\x07{"error": {"message": "m"}}\n\ndata: [DONE]\n\n',
]


def one(data: bytes) -> None:
    """The first byte says how long a read is."""
    size, body = (data[0] if data else 0) + 1, data[1:]
    whole = _events([body])
    pieces = _events([body[start : start + size] for start in range(0, len(body), size)])
    assert pieces == whole, "cuts change the events"
    dispatched = [event for event in whole[0] if not event.stray]
    if len(dispatched) == len(whole[0]) and b"{" not in body:
        expected = standard(body.removeprefix(b"\xef\xbb\xbf"))
        assert dispatched == expected, "not what the standard says"


def _events(reads: list[bytes]) -> tuple[list, list]:
    splitter = Splitter()
    return [event for read in reads for event in splitter.feed(read)], splitter.finish()
