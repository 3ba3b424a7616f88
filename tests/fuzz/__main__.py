"""``python -m tests.fuzz [TARGET ...] --seconds N``: each target for so long, driven by coverage.

What reached new code is added to the target's folder in ``corpus/``; an input that broke an invariant stays in the
working directory as ``crash-...`` (put it into the corpus with the fix). Exit status 1 if there was one.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.fuzz.targets import CORPUS, TARGETS

#: An input that takes longer than this is one that does more than its size is worth.
SLOW_S = 10
BYTES_MAX = 4096


def main() -> int:
    options = _options()
    names = options.targets or list(TARGETS)
    errors = Console(stderr=True)
    table = Table("target", "inputs", "coverage", "corpus", "broken", "invariant", title="Fuzzing")
    broken = False
    for name in names:
        errors.print(f"{name}: {options.seconds} s")
        inputs, coverage, failed = _fuzz(name, options.seconds, options.seed)
        kept = len(list((CORPUS / name).iterdir()))
        broken |= failed
        table.add_row(name, f"{inputs:,}", str(coverage), str(kept), "yes" if failed else "no", TARGETS[name].invariant)
    Console().print(table)
    return int(broken)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", choices=[*TARGETS, []], help="default: all")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def _fuzz(name: str, seconds: int, seed: int) -> tuple[int, int, bool]:
    """(inputs tried, edges covered, an invariant was broken)."""
    folder = CORPUS / name
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as seeds:
        for number, seed_bytes in enumerate(TARGETS[name].seeds):
            (Path(seeds) / str(number)).write_bytes(seed_bytes)
        run = subprocess.run(
            [
                *(sys.executable, "-m", "tests.fuzz.drive", name),
                *(f"-max_total_time={seconds}", f"-seed={seed}", f"-timeout={SLOW_S}", f"-max_len={BYTES_MAX}"),
                *("-print_final_stats=1", str(folder), seeds),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
    said = run.stdout + run.stderr
    if run.returncode:
        Console(stderr=True).print(said[-4000:], markup=False)
    inputs = re.search(r"number_of_executed_units:\s*(\d+)", said)
    coverage = re.findall(r"cov: (\d+)", said)
    return int(inputs[1]) if inputs else 0, int(coverage[-1]) if coverage else 0, run.returncode != 0


if __name__ == "__main__":
    sys.exit(main())
