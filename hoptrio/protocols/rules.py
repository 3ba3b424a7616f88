"""What every protocol implements: the request side, the reader of its answers, and its error shapes. Sans-IO.

`chat`, `responses`, `messages` and `gemini` each export one `RULES` object of this interface; the rest of the package
picks by `Protocol` through `protocols.registry.rules_for` and never asks which protocol it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from typing import Protocol as Interface

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hoptrio.contract import Reason
    from hoptrio.errors import HoptrioError
    from hoptrio.protocols.alike import Alike
    from hoptrio.protocols.events import Call, Counts, Finish, Framing, Protocol, ProviderError, SseEvent, Step
    from hoptrio.protocols.texts import Said

__all__ = ["Reader", "Rules", "Unary"]


class Reader(Interface):
    """Reads one provider stream, event by event, and remembers what it proves. One reader a stream, never reused."""

    @property
    def patience_s(self) -> float | None:
        """How long to wait for more after the last step: None = the stream's own clocks decide, 0 = it is over now,
        otherwise seconds of silence that count as the end of the body."""

    @property
    def answered(self) -> bool:
        """True once an ANSWER was read."""

    @property
    def counts(self) -> Counts | None:
        """Usage as far as it is evidence by the protocol's rule; None until then."""

    @property
    def error(self) -> ProviderError | None:
        """The provider's error, once one was read. A stream with an error is never complete."""

    @property
    def provider_ids(self) -> tuple[str, ...]:
        """Ids made by the provider in this answer that a later request may refer to (``resp_...``), in order."""

    @property
    def unconvertible(self) -> str:
        """Why the answer cannot be told in the client's protocol, so that the stream fails; "" = it can so far, as
        always in the protocol's own."""

    def feed(self, event: SseEvent) -> Step:
        """Classify one event and give its bytes for the client. Never raises for what a provider sends."""

    def alike(self) -> Alike | None:
        """What recognises further events that say the same but for their text, so that they need not be fed: from now
        on the reader shows it examples. None = there are no such events in this protocol."""

    def finish(self, *, clean: bool) -> Finish:
        """Judge the end of the body; `clean` = it ended by its framing, not by a broken connection."""

    @property
    def reported(self) -> Counts | None:
        """The provider's own numbers so far, whether or not they are evidence; some may be missing."""

    def failure(self, reason: Reason, error: HoptrioError) -> bytes:
        """Our own error event, ready to be written, fitting what this stream already sent (ids, sequence)."""


class Unary(Interface):
    """One whole JSON answer, read."""

    @property
    def counts(self) -> Counts | None:
        """The usage, if the body has it in full."""

    @property
    def reported(self) -> Counts | None:
        """What it has of it, in full or not."""

    @property
    def error(self) -> ProviderError | None:
        """The provider's error, in place of an answer or beside what there is of it."""

    @property
    def provider_ids(self) -> tuple[str, ...]:
        """As in `Reader`."""


class Rules(Interface):
    """One protocol."""

    protocol: Protocol

    def parse(self, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes) -> Call:
        """Read a client's request. `headers` have lower-case names; `path` is percent-decoded.

        Raises errors.BadRequest (with `param`) for a shape that is wrong, ModelNotFound/NotFound for a bad path.
        """

    def encode(
        self,
        call: Call,
        *,
        model: str,
        output_limit: int | None,
        ask_usage: bool,
        drop_unknown: bool,
        drop_tools: frozenset[str],
    ) -> bytes:
        """The upstream body, from the parsed value: `model` is the channel's own name for it, `output_limit` (if not
        None) replaces every spelling of the limit above it; a request without a limit gets none. `ask_usage` (Chat)
        sets ``stream_options.include_usage``; without it no ``stream_options`` are sent, not even the caller's.
        Hosted tools in `drop_tools` are left out; others without a bound on their calls get `HOSTED_CALLS_MAX`."""

    def path(self, call: Call, model: str) -> str:
        """The path and query behind the channel's base URL, e.g. ``/chat/completions`` or
        ``/v1beta/models/m:streamGenerateContent?alt=sse``."""

    def reader(self, call: Call, *, hide_usage: bool) -> Reader:
        """A reader for one stream; `hide_usage` (Chat) withholds usage from a client that did not ask."""

    def read(self, call: Call, body: bytes) -> Unary:
        """Read a whole (not streaming) 2xx body. Never raises for what a provider sends."""

    def said(self, data: bytes) -> list[Said]:
        """The words of the model in an event's data, or in a whole body: to measure them where usage is missing. Never
        raises for what a provider sends."""

    def read_error(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        """Read a provider's non-2xx answer."""

    def error_body(self, error: HoptrioError, request_id: str) -> bytes:
        """The JSON error body in this protocol's shape."""

    def error_status(self, error: HoptrioError) -> int:
        """The HTTP status, where a protocol has its own (Messages: 529 for overload)."""

    def keepalive(self, framing: Framing, headers: Mapping[str, str]) -> bytes:
        """Bytes that keep an idle stream alive; b"" = none for this client."""

    @property
    def stored_name(self) -> Callable[[bytes], str] | None:
        """Reads the name by which a client may ask for an answer again from the first bytes that it was told; None = in
        this protocol it cannot."""

    def models_body(self, models: list[dict[str, Any]], one: bool) -> bytes:
        """The models list, or one model, in this protocol's shape."""
