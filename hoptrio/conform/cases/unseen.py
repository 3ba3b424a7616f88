"""What cannot be tried from outside, and why: named, so that nobody takes it for passed."""

from __future__ import annotations

from hoptrio.conform.case import Unseen

__all__ = ["UNSEEN"]

UNSEEN = (
    Unseen(12, "an interval that proxies do not wait for", "a warning of the config"),
    Unseen(51, "accounting that dies with the client's connection", "inside the process; case 45 shows its effect"),
    Unseen(62, "channels whose streams never report usage", "needs a channel that is probed"),
    Unseen(68, "overspending by a race", "needs an account with little money"),
    Unseen(71, "a crash that leaks a hold", "needs the process to be killed"),
    Unseen(98, "a shutdown that cuts streams", "needs the process to be stopped"),
    Unseen(100, "CPU of an event", "measured by the benchmark"),
)
