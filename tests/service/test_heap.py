from __future__ import annotations

import subprocess
import sys

import pytest

#: Frees a block of 24 MiB, which raises the threshold of glibc, then 100 MiB with a small block on each piece.
PROGRAM = """
import sys
from hoptrio.service.heap import steady_heap
if {steady}:
    assert steady_heap() or not sys.platform.startswith("linux")
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
del_me = bytearray(24 << 20); del del_me
before = resident()
blocks = []
for _ in range(100):
    blocks.append(bytearray(b"x") * (1 << 20))
    pin = bytearray(b"x") * 3000
    blocks.append(pin)
kept = blocks[1::2]
del blocks, pin
print((resident() - before) >> 20)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_large_blocks_return_to_the_system_whatever_small_ones_stay():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(steady=True)], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 10


#: Reads a body of 25 MiB in pieces while other work leaves a small block behind each, then lets go of the body alone.
BODY = """
import gc
import trio
from hoptrio.protocols.events import Call, Framing, Protocol
from hoptrio.protocols.registry import RULES
from hoptrio.service.heap import steady_heap
from hoptrio.stream.pump import BodyPump
from hoptrio.stream.reading import Native
from hoptrio.upstream.answer import BodyEnd

class Answer:
    left, pins = 400, []
    async def receive(self):
        await trio.lowlevel.checkpoint()
        self.left -= 1
        self.pins.append(bytearray(5_000))
        return b"x" * 65_000 if self.left else BodyEnd.CLEAN

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

steady_heap()
call = Call(protocol=Protocol.CHAT, model="m", stream=False, framing=Framing.JSON, body={})
pump = BodyPump(Native(RULES[Protocol.CHAT], call, hide_usage=False), produced=None, note=lambda event: None)
before = resident()
ended = trio.run(pump.run, Answer(), b"{")
assert len(ended.tail) == 399 * 65_000 + 1
del ended
gc.collect()  # a finished trio.run keeps its result in a cycle
print((resident() - before) >> 20)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_large_body_that_came_in_pieces_leaves_none_of_them_behind():
    done = subprocess.run([sys.executable, "-c", BODY], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 8
