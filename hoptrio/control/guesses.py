"""Wrong tokens: how many a caller has given of late, by its address. Each process counts for itself.

Only wrong ones are counted and refused; the right one always opens, so that nobody who guesses locks the others out.
What keeps guessing hopeless is the token's length; this keeps it slow for the log and the network.
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict, deque
from typing import TYPE_CHECKING

import trio

from hoptrio import limits
from hoptrio.errors import LimitExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.requests import HTTPConnection

__all__ = ["Guesses", "caller"]


class Guesses:
    """`trusted`: the networks of proxies whose ``X-Forwarded-For`` is believed, as the config has them now."""

    def __init__(self, trusted: Callable[[], Sequence[str]]) -> None:
        self._trusted = trusted
        #: When each address was wrong, the one that was longest ago first.
        self._wrong: OrderedDict[str, deque[float]] = OrderedDict()

    def wrong(self, connection: HTTPConnection) -> None:
        """The caller gave a wrong token. Raises LimitExceeded where it has given too many."""
        now, who = trio.current_time(), caller(connection, self._trusted())
        times = self._wrong.setdefault(who, deque(maxlen=limits.LOGINS_FAILED_MAX))
        self._wrong.move_to_end(who)
        if len(self._wrong) > limits.LOGIN_CALLERS_MAX:
            self._wrong.popitem(last=False)
        if len(times) == limits.LOGINS_FAILED_MAX and now - times[0] < limits.LOGINS_FAILED_S:
            wait_s = int(times[0] + limits.LOGINS_FAILED_S - now) + 1
            raise LimitExceeded("Too many wrong tokens were tried; wait a while.", retry_after_s=wait_s)
        times.append(now)


def caller(connection: HTTPConnection, trusted: Sequence[str]) -> str:
    """The address that asks: the peer's, or where that is a trusted proxy the nearest one in ``X-Forwarded-For`` that
    is not. Of IPv6 its network of 64 bits, which one host has for itself."""
    networks = [ipaddress.ip_network(each) for each in trusted]
    told = ",".join(connection.headers.getlist("x-forwarded-for")).split(",")
    found = None
    for text in (connection.client.host if connection.client else "", *reversed(told)):
        try:
            address = ipaddress.ip_address(text.strip())
        except ValueError:
            break
        found = (address.ipv4_mapped or address) if isinstance(address, ipaddress.IPv6Address) else address
        if not any(found in network for network in networks):
            break
    return str(ipaddress.ip_network((found, 64), strict=False) if isinstance(found, ipaddress.IPv6Address) else found)
