"""The tables of docs/conversion.md, made of `convert.request.tables`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoptrio.protocols.convert.request.tables import CHANNEL, CLIENT, CONTENT, Fate
from hoptrio.protocols.events import Protocol
from tests.support.pages.table import head, line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hoptrio.protocols.convert.request.tables import Row

TITLES = {
    Protocol.CHAT: "Chat Completions",
    Protocol.RESPONSES: "Responses",
    Protocol.MESSAGES: "Messages",
    Protocol.GEMINI: "Gemini",
}
#: Fields of the neutral request, where their name alone does not say it.
NOUNS = {
    "turns": "conversation",
    "choice": "choice of tools",
    "serial": "one call at a time",
    "limit_tokens": "output limit",
    "schema": "JSON by a schema",
    "json": "JSON without a schema",
    "tier": "service tier",
    "user": "end user",
    "choices": "several answers",
}


def render() -> str:
    """What each protocol's requests become on channels of the others."""
    sections = [_client(client) for client in Protocol]
    sections += [_channel(channel) for channel in Protocol]
    return "\n".join([*sections, _contents()])


def _client(client: Protocol) -> str:
    channels = [channel for channel in Protocol if channel is not client]
    lines = [f"## Parameters of a {TITLES[client]} client", "", *head("parameter", *map(TITLES.get, channels), "note")]
    for param, row in CLIENT[client].items():
        cells = [_cell(_composed(row, channel), client) for channel in channels]
        lines.append(line(f"`{param}`", *cells, row.why))
    return "\n".join([*lines, ""])


def _channel(channel: Protocol) -> str:
    lines = [f"## On a {TITLES[channel]} channel", ""]
    lines += list(_notes(channel))
    return "\n".join([*lines, ""])


def _notes(channel: Protocol) -> Iterator[str]:
    for field, row in CHANNEL[channel].items():
        if row.why:
            spared = "".join(f"; dropped for a {TITLES[client]} client" for client in row.spared)
            yield f"* {NOUNS.get(field, field.replace('_', ' '))}: {_cell(row)}; {row.why}{spared}."


def _contents() -> str:
    lines = ["## Content", "", *head("content", *(f"on {TITLES[channel]}" for channel in Protocol))]
    for kind, rows in CONTENT.items():
        lines.append(line(kind, *(_told(rows[channel]) for channel in Protocol)))
    return "\n".join([*lines, ""])


def _composed(row: Row, channel: Protocol) -> Row:
    return CHANNEL[channel][row.name] if row.fate is Fate.CARRIED else row


def _cell(row: Row, client: Protocol | None = None) -> str:
    fate = row.fate_for(client) if client else row.fate
    if fate is Fate.CARRIED:
        return f"`{row.name}`" if row.name else "carried"
    return "dropped" if fate is Fate.DROPPED else "**400**"


def _told(row: Row) -> str:
    return ": ".join(each for each in (_cell(row), row.why) if each)
