"""Contract: the one value in which two streams may be treated differently, and its presets. Pure.

Two public services describe this gateway and answer some questions differently. Each such question is a field here
(`FIELDS`), each answer a preset (`PRESETS`), and each way a stream can end is a row (`ENDS`). Nothing else in the
package asks for a preset by name: code reads fields, tables decide, so that a contract mixed from fields behaves as
the tables say. The contract page (docs/contracts.md) is checked against these tables by tests/contract.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ENDS", "FIELDS", "PRESETS", "Contract", "End", "Field", "Money", "Reason", "Told", "derive"]

Keepalive = Literal["off", "interval", "idle"]
UsageRule = Literal["optional", "required"]
Failure = Literal["event", "truncate", "event_abort"]
Interrupted = Literal["charge", "release"]

ALL_PROTOCOLS = ("chat", "responses", "messages", "gemini")


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """What a stream promises its caller; one immutable value, named by a server and, if it likes, by a key."""

    name: str
    protocols: tuple[str, ...]
    keepalive: Keepalive
    keepalive_seconds: float
    usage: UsageRule
    failure: Failure
    interrupted: Interrupted
    attempts: int
    stall: bool
    deadline_seconds: float
    certified_only: bool
    reattach: bool


@dataclass(frozen=True, slots=True)
class Field:
    """One row of the table: the field, what it may be (None: any number in `bounds`), each preset's answer, and what
    it decides, for the reference of the config."""

    name: str
    values: tuple[Any, ...] | None
    hopbase: Any
    anypath: Any
    hoptrio: Any
    about: str
    bounds: tuple[float, float] | None = None


FIELDS: tuple[Field, ...] = (
    Field(
        "protocols",
        ALL_PROTOCOLS,
        ALL_PROTOCOLS[:3],
        ALL_PROTOCOLS,
        ALL_PROTOCOLS,
        "The protocols that may be spoken. A call in another one is a 404.",
    ),
    Field(
        "keepalive",
        ("off", "interval", "idle"),
        "interval",
        "off",
        "idle",
        "When keep-alives are written: never, regularly, or after a silence.",
    ),
    Field("keepalive_seconds", None, 10.0, 10.0, 10.0, "The interval, or the silence.", bounds=(0.1, 600)),
    Field(
        "usage",
        ("optional", "required"),
        "optional",
        "required",
        "optional",
        "Whether a Chat stream must ask for usage, by `stream_options.include_usage`.",
    ),
    Field(
        "failure",
        ("event", "truncate", "event_abort"),
        "event",
        "truncate",
        "event_abort",
        "How a failure is told after the status: an error event, a broken connection, or the one and then the other.",
    ),
    Field(
        "interrupted",
        ("charge", "release"),
        "charge",
        "release",
        "release",
        "Whether an interrupted answer is charged for what was produced, or nothing.",
    ),
    Field(
        "attempts",
        None,
        2,
        1,
        1,
        "How often a request is tried while no output has reached the client.",
        bounds=(1, 5),
    ),
    Field(
        "stall",
        (True, False),
        True,
        False,
        True,
        "Whether a stream without progress ends after the model's stall limit.",
    ),
    Field("deadline_seconds", None, 600.0, 600.0, 600.0, "From the first dispatch to the end.", bounds=(1, 600)),
    Field(
        "certified_only",
        (True, False),
        False,
        True,
        True,
        "Whether shared routes stream over certified channels only.",
    ),
    Field(
        "reattach",
        (True, False),
        False,
        False,
        True,
        "Whether a client may come back to its stream, and send a request again without a second charge.",
    ),
)


def _preset(name: Literal["hopbase", "anypath", "hoptrio"]) -> Contract:
    return Contract(name=name, **{field.name: getattr(field, name) for field in FIELDS})


PRESETS: Mapping[str, Contract] = MappingProxyType(
    {"hopbase": _preset("hopbase"), "anypath": _preset("anypath"), "hoptrio": _preset("hoptrio")}
)


def derive(name: str, preset: str, **changes: Any) -> Contract:
    """A contract of one's own: a preset with some fields changed.

    Raises KeyError for an unknown preset or field, ValueError for a value its field does not allow.
    """
    by_name = {field.name: field for field in FIELDS}
    for key, value in changes.items():
        _check(by_name[key], value)
    return replace(PRESETS[preset], name=name, **changes)


def _check(field: Field, value: Any) -> None:
    if field.name == "protocols":
        allowed = isinstance(value, tuple) and len(value) > 0 and set(value) <= set(ALL_PROTOCOLS)
    elif field.values is not None:
        allowed = any(value is each or (isinstance(each, str) and value == each) for each in field.values)
    else:
        low, high = field.bounds or (0, 0)
        whole = field.name != "attempts" or isinstance(value, int)
        allowed = isinstance(value, int | float) and not isinstance(value, bool) and whole and low <= value <= high
    if not allowed:
        raise ValueError(f"{field.name} cannot be {value!r}")


class Reason(StrEnum):
    """Why a stream did not end with valid evidence. A stream that did has no reason at all."""

    NO_EVIDENCE = "no_evidence"
    NOT_DISPATCHED = "not_dispatched"
    PROVIDER_ERROR = "provider_error"
    HEADER_TIMEOUT = "header_timeout"
    TRUNCATED = "truncated"
    STALLED = "stalled"
    DEADLINE = "deadline"
    INTERNAL = "internal"
    EVENT_TOO_LARGE = "event_too_large"
    UNCONVERTIBLE = "unconvertible"
    SHUTDOWN = "shutdown"
    ORPHANED = "orphaned"


class Money(Enum):
    """What becomes of the hold."""

    CAPTURE = "capture"
    RELEASE = "release"
    PRODUCED = "charge produced"


class Told(Enum):
    """How the client learns of the end, before `Contract.failure` refines it (`stream.ending`)."""

    #: The provider's terminal and a clean end.
    TERMINAL = "terminal"
    #: The provider's terminal and a clean end; under `truncate` an abort without it.
    TERMINAL_UNLESS_TRUNCATE = "terminal unless truncate"
    #: The mapped HTTP status if none is out, else by `failure`.
    FAILURE = "failure"
    #: The provider's own error event, nothing of ours added, then the end by `failure`.
    PROVIDER_EVENT = "provider event"
    #: Nobody is left to tell it: the connection broke.
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class End:
    """One row of "What ends a stream": the money under either `interrupted`, and what the client sees."""

    charge: Money
    release: Money
    told: Told

    def money(self, interrupted: Interrupted) -> Money:
        """The cell of this row under the contract's `interrupted`."""
        return self.charge if interrupted == "charge" else self.release


#: "What ends a stream, and who pays". None is the terminal with valid evidence.
ENDS: Mapping[Reason | None, End] = MappingProxyType(
    {
        None: End(Money.CAPTURE, Money.CAPTURE, Told.TERMINAL),
        Reason.NO_EVIDENCE: End(Money.PRODUCED, Money.RELEASE, Told.TERMINAL_UNLESS_TRUNCATE),
        Reason.NOT_DISPATCHED: End(Money.RELEASE, Money.RELEASE, Told.FAILURE),
        Reason.PROVIDER_ERROR: End(Money.PRODUCED, Money.RELEASE, Told.PROVIDER_EVENT),
        Reason.HEADER_TIMEOUT: End(Money.RELEASE, Money.RELEASE, Told.FAILURE),
        Reason.TRUNCATED: End(Money.PRODUCED, Money.RELEASE, Told.FAILURE),
        Reason.STALLED: End(Money.PRODUCED, Money.RELEASE, Told.FAILURE),
        Reason.DEADLINE: End(Money.PRODUCED, Money.RELEASE, Told.FAILURE),
        Reason.INTERNAL: End(Money.RELEASE, Money.RELEASE, Told.FAILURE),
        Reason.EVENT_TOO_LARGE: End(Money.RELEASE, Money.RELEASE, Told.FAILURE),
        Reason.UNCONVERTIBLE: End(Money.RELEASE, Money.RELEASE, Told.FAILURE),
        Reason.SHUTDOWN: End(Money.PRODUCED, Money.RELEASE, Told.FAILURE),
        Reason.ORPHANED: End(Money.RELEASE, Money.RELEASE, Told.BROKEN),
    }
)
