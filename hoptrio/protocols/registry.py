"""The four protocols, each composed of its modules; everything else picks one here and never asks which it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoptrio.protocols.chat import errors as chat_errors
from hoptrio.protocols.chat import reader as chat_reader
from hoptrio.protocols.chat import said as chat_said
from hoptrio.protocols.chat import surface as chat_surface
from hoptrio.protocols.chat import wire as chat_wire
from hoptrio.protocols.events import Protocol
from hoptrio.protocols.gemini import count as gemini_count
from hoptrio.protocols.gemini import errors as gemini_errors
from hoptrio.protocols.gemini import reader as gemini_reader
from hoptrio.protocols.gemini import request as gemini_request
from hoptrio.protocols.gemini import said as gemini_said
from hoptrio.protocols.gemini import wire as gemini_wire
from hoptrio.protocols.messages import count as messages_count
from hoptrio.protocols.messages import errors as messages_errors
from hoptrio.protocols.messages import reader as messages_reader
from hoptrio.protocols.messages import request as messages_request
from hoptrio.protocols.messages import said as messages_said
from hoptrio.protocols.messages import wire as messages_wire
from hoptrio.protocols.responses import count as responses_count
from hoptrio.protocols.responses import errors as responses_errors
from hoptrio.protocols.responses import reader as responses_reader
from hoptrio.protocols.responses import request as responses_request
from hoptrio.protocols.responses import said as responses_said
from hoptrio.protocols.responses import stored as responses_stored
from hoptrio.protocols.responses import wire as responses_wire

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hoptrio.protocols.count import Counting
    from hoptrio.protocols.events import Framing
    from hoptrio.protocols.rules import Rules

__all__ = ["COUNTING", "RULES", "SILENT_RESPONSES"]


class _Chat:
    protocol = Protocol.CHAT
    parse = staticmethod(chat_surface.parse)
    encode = staticmethod(chat_surface.encode)
    path = staticmethod(chat_surface.path)
    reader = staticmethod(chat_reader.reader)
    read = staticmethod(chat_reader.read)
    said = staticmethod(chat_said.said)
    read_error = staticmethod(chat_errors.read_error)
    error_body = staticmethod(chat_errors.error_body)
    error_status = staticmethod(chat_errors.error_status)
    keepalive = staticmethod(chat_wire.keepalive)
    models_body = staticmethod(chat_wire.models_body)
    stored_name = None


class _Responses:
    protocol = Protocol.RESPONSES
    parse = staticmethod(responses_request.parse)
    encode = staticmethod(responses_request.encode)
    path = staticmethod(responses_request.path)
    reader = staticmethod(responses_reader.reader)
    read = staticmethod(responses_reader.read)
    said = staticmethod(responses_said.said)
    read_error = staticmethod(responses_errors.read_error)
    error_body = staticmethod(responses_errors.error_body)
    error_status = staticmethod(responses_errors.error_status)
    keepalive = staticmethod(responses_wire.keepalive)
    models_body = staticmethod(responses_wire.models_body)
    stored_name = staticmethod(responses_stored.name_of)


class _SilentResponses(_Responses):
    """For a connection that keeps itself alive: nothing is written between two events."""

    @staticmethod
    def keepalive(framing: Framing, headers: Mapping[str, str]) -> bytes:
        return b""


class _Messages:
    protocol = Protocol.MESSAGES
    parse = staticmethod(messages_request.parse)
    encode = staticmethod(messages_request.encode)
    path = staticmethod(messages_request.path)
    reader = staticmethod(messages_reader.reader)
    read = staticmethod(messages_reader.read)
    said = staticmethod(messages_said.said)
    read_error = staticmethod(messages_errors.read_error)
    error_body = staticmethod(messages_errors.error_body)
    error_status = staticmethod(messages_errors.error_status)
    keepalive = staticmethod(messages_wire.keepalive)
    models_body = staticmethod(messages_wire.models_body)
    stored_name = None


class _Gemini:
    protocol = Protocol.GEMINI
    parse = staticmethod(gemini_request.parse)
    encode = staticmethod(gemini_request.encode)
    path = staticmethod(gemini_request.path)
    reader = staticmethod(gemini_reader.reader)
    read = staticmethod(gemini_reader.read)
    said = staticmethod(gemini_said.said)
    read_error = staticmethod(gemini_errors.read_error)
    error_body = staticmethod(gemini_errors.error_body)
    error_status = staticmethod(gemini_errors.error_status)
    keepalive = staticmethod(gemini_wire.keepalive)
    models_body = staticmethod(gemini_wire.models_body)
    stored_name = None


#: Chat has no call that counts tokens.
COUNTING: Mapping[Protocol, Counting] = {
    Protocol.RESPONSES: responses_count.COUNTING,
    Protocol.MESSAGES: messages_count.COUNTING,
    Protocol.GEMINI: gemini_count.COUNTING,
}
RULES: Mapping[Protocol, Rules] = {
    Protocol.CHAT: _Chat(),
    Protocol.RESPONSES: _Responses(),
    Protocol.MESSAGES: _Messages(),
    Protocol.GEMINI: _Gemini(),
}
SILENT_RESPONSES: Rules = _SilentResponses()
