"""``python -m tests.matrix``: the whole matrix; exit 1 if a pair fails. Inconvertible ones are listed with the reason."""

from __future__ import annotations

import sys
import traceback
from collections import Counter

from tests.matrix.check import check
from tests.support.converting import DIRECTIONS
from tests.support.corpus import recordings


def main() -> int:
    """Print what came of each direction."""
    if not recordings():
        print("no recordings: HOPTRIO_CORPUS names their folder")
        return 2
    failed = 0
    print(f"{'channel':<11}{'client':<11}{'same':>6}{'inconvertible':>15}{'failed':>8}")
    reasons: list[str] = []
    for channel, client in DIRECTIONS:
        counts: Counter[str] = Counter()
        for recording in recordings(channel):
            try:
                why = check(recording, client)
            except Exception:  # an SDK may raise anything, and each pair is to be seen
                counts["failed"] += 1
                print(f"FAILED {recording} for {client}", traceback.format_exc(limit=2), sep="\n")
                continue
            counts["inconvertible" if why else "same"] += 1
            if why:
                reasons.append(f"{recording} for {client}: {why}")
        failed += counts["failed"]
        print(f"{channel:<11}{client:<11}{counts['same']:>6}{counts['inconvertible']:>15}{counts['failed']:>8}")
    print(*reasons, sep="\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
