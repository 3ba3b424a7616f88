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
