"""Samples are counted for hoptrio's innermost function, and for the library that was at work."""

from __future__ import annotations

from bench.profile import read_stacks

STACKS = """\
run (/x/site-packages/trio/_run.py:10);pump (/app/hoptrio/stream/pump.py:5);feed (/app/hoptrio/protocols/sse.py:7) 6
run (/x/site-packages/trio/_run.py:10);send (/app/hoptrio/upstream/wire.py:5);send (/x/site-packages/h11/_c.py:7) 3
run (/x/site-packages/trio/_run.py:10);poll (/usr/lib/python3.11/selectors.py:7) 1
serve (/app/hoptrio/cli/serve.py:5);run (/x/site-packages/trio/_run.py:10) 2
a line that is no stack
"""


def test_samples_by_room_library_and_function() -> None:
    found = read_stacks(STACKS.splitlines())
    assert found.samples == 12
    assert found.rooms == {"protocols": 6, "upstream": 3, "outside (the standard library)": 1, "outside (trio)": 2}
    assert found.libraries == {"hoptrio": 6, "h11": 3, "the standard library": 1, "trio": 2}
    assert found.functions["hoptrio/protocols/sse.py feed"] == 6
    assert "| protocols | 50.0% |" in found.markdown("x")
