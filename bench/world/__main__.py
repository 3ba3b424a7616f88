"""``python -m tests.world --seed N --streams M [--seeds K]``: live K worlds, from seed N on, each of M streams.

Each world ends in a line on standard output; progress goes to standard error if that is a terminal.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.world.world import Broken, run


def main() -> int:
    """0 if every invariant held; 1 with the history of the request that broke one."""
    parser = argparse.ArgumentParser(prog="python -m tests.world", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    for seed in range(options.seed, options.seed + options.seeds):
        started = time.perf_counter()
        try:
            summary = run(seed, options.streams, _progress if sys.stderr.isatty() else lambda _: None)
        except Broken as broken:
            sys.stdout.write(f"{broken}\n")
            return 1
        sys.stdout.write(f"{summary}, {time.perf_counter() - started:.1f} s\n")
        sys.stdout.flush()
    return 0


def _progress(done: int) -> None:
    if done % 50 == 0:
        sys.stderr.write(f"\r{done}")
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
