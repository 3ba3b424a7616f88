"""The preflight: what is found out before a run, and how soon."""

from __future__ import annotations

import pytest
import trio

from hoptrio.conform.case import Trial
from hoptrio.conform.preflight import NotReady, preflight
from hoptrio.conform.settings import Settings
from hoptrio.conform.wire import Ending, Wire
from hoptrio.protocols.events import Protocol


class Unanswered:
    """A runner on a gateway that takes every request and never answers."""

    async def attempt(self, protocol, play):
        await trio.sleep(play.seconds)
        wire = Wire(ending=Ending.OPEN, ended_s=play.seconds)
        return Trial(protocol=protocol, channel=protocol, settings=Settings(), wire=wire, asked=())


async def test_a_gateway_that_never_answers_is_found_out_in_the_time_of_one_try(autojump_clock):
    began_s = trio.current_time()
    with pytest.raises(NotReady, match="chat: gave no answer within 20 s; responses: gave no answer"):
        await preflight(Unanswered(), list(Protocol), "127.0.0.1:1")
    assert trio.current_time() - began_s == pytest.approx(20.0)
