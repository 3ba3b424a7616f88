"""A gateway whose bounds are short: ``python -m tests.support.hasty serve`` is ``hoptrio serve`` with other `limits`.

They stand in the environment (``HOPTRIO_TEST_LIMITS``, as JSON: names of `hoptrio.limits` and their values). For tests
that wait for a bound in real time; that the product's own values are what they should be is tested in virtual time.
"""

from __future__ import annotations

import functools
import json
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["environment", "main", "start_workers_as"]

_VARIABLE = "HOPTRIO_TEST_LIMITS"


def environment(limits: Mapping[str, float]) -> dict[str, str]:
    """What `main` reads."""
    return {_VARIABLE: json.dumps(dict(limits))}


def start_workers_as(module: str) -> None:
    """From now on a supervisor of this process starts its workers as this module, too, and not as `hoptrio`."""
    from hoptrio.service.supervisor import Supervisor

    start = Supervisor.__init__

    @functools.wraps(start)
    def wrapped(self: Any, command: Any, *args: Any, **kwargs: Any) -> None:
        start(self, [module if word == "hoptrio" else word for word in command], *args, **kwargs)

    Supervisor.__init__ = wrapped  # type: ignore[method-assign]


def main() -> None:
    """Be `hoptrio` with these limits, and so its workers."""
    from hoptrio import limits

    for name, value in json.loads(os.environ[_VARIABLE]).items():
        if not isinstance(getattr(limits, name), int | float):
            raise TypeError(f"{name} is no limit")
        setattr(limits, name, value)
    start_workers_as(__spec__.name)

    from hoptrio.cli.main import main as hoptrio

    hoptrio()


if __name__ == "__main__":
    main()
