"""``python -m bench``: gateways next to each other in one run. Without a command it runs the scenarios."""

from __future__ import annotations

import signal

from bench.check import check
from bench.compare import compare, report
from bench.load import load
from bench.profile import profile
from bench.soak.command import soak_command

compare.add_command(load)
compare.add_command(profile)
compare.add_command(check)
compare.add_command(report)
compare.add_command(soak_command)

if __name__ == "__main__":
    # Both end a run as Ctrl-C does, so that no contestant is left behind; a job in the background ignores SIGINT.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    compare(prog_name="python -m bench")
