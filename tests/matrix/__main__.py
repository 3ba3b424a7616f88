"""``python -m tests.matrix``: the whole matrix; exit 1 if a pair fails. What cannot be converted is listed with why."""

from __future__ import annotations

import sys
import traceback
from collections import Counter

from tests.matrix.check import check
from tests.support.converting import DIRECTIONS
from tests.support.corpus import recordings


def main() -> int:
    """Write what came of each direction."""
    if not recordings():
        sys.stdout.write("no recordings: HOPTRIO_CORPUS names their folder\n")
        return 2
    sys.stdout.write(f"{'channel':<11}{'client':<11}{'same':>6}{'inconvertible':>15}{'failed':>8}\n")
    failed = 0
    reasons: list[str] = []
    for channel, client in DIRECTIONS:
        counts: Counter[str] = Counter()
        for recording in recordings(channel):
            outcome, why = _try(recording, client)
            counts[outcome] += 1
            if why:
                reasons.append(f"{outcome}: {recording} for {client}: {why}\n")
        failed += counts["failed"]
        row = f"{counts['same']:>6}{counts['inconvertible']:>15}{counts['failed']:>8}"
        sys.stdout.write(f"{channel:<11}{client:<11}{row}\n")
    sys.stdout.writelines(reasons)
    return 1 if failed else 0


def _try(recording, client):
    try:
        why = check(recording, client)
    except Exception:  # an SDK may raise anything, and every pair is to be seen
        return "failed", traceback.format_exc(limit=3)
    return ("inconvertible" if why else "same"), why


if __name__ == "__main__":
    sys.exit(main())
