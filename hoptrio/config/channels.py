"""``[channels.NAME]``: one provider account, checked against the models that are priced."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from hoptrio.admission.catalogue import Channel
from hoptrio.config.schema import ANY
from hoptrio.ledger.model import DOT_SEGMENTS
from hoptrio.protocols.events import Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hoptrio.config.problem import Key, Report
    from hoptrio.config.schema import ChannelTable, ModelTable
    from hoptrio.config.source import Source

__all__ = ["check_channel", "make_channel"]

#: OpenAI's addresses end in a version, Anthropic's and Google's do not.
_VERSIONED = frozenset({Protocol.CHAT, Protocol.RESPONSES})
#: Where OpenAI's own models are: the reasoning ones refuse `max_tokens`, all others take either spelling. Elsewhere
#: `max_completion_tokens` is often not known, and Mistral and strict vLLM servers refuse what they do not know.
_OPENAI_HOSTS = ("api.openai.com", "openai.azure.com")


def check_channel(
    name: str, table: ChannelTable, models: Mapping[str, ModelTable], report: Report, source: Source
) -> None:
    """Report what is missing, what contradicts, and models without a price."""
    key: Key = ("channels", name)
    if name in DOT_SEGMENTS:
        report.error(key, f"no channel can be named {name}, since no address of one can end in it")
    for field in ("protocols", "base_url", "models"):
        if not getattr(table, field):
            report.error((*key, field), "is empty" if field in table.model_fields_set else "is missing")
    _check_addresses(key, table, report)
    _check_offers(key, table, models, report)
    _check_route(key, table, report)
    _check_supplier(key, table, report)
    if table.ca_file and (wrong := source.unreadable(table.ca_file) or _unusable(_authorities(table, source))):
        report.error((*key, "ca_file"), wrong)
    if not (table.api_key or table.headers or table.query or report.knows((*key, "api_key"))):
        report.warn((*key, "api_key"), "requests go to this provider without credentials")


def make_channel(name: str, table: ChannelTable, source: Source) -> Channel:
    """The value that admission and upstream work with, of a table without mistakes."""
    everywhere = table.base_url.get(ANY, "")
    chat = table.base_url.get(Protocol.CHAT, everywhere)
    return Channel(
        name=name,
        base_urls={protocol: table.base_url.get(protocol, everywhere) for protocol in table.protocols},
        api_key=table.api_key,
        models={offer.name: offer.upstream for offer in table.models},
        route=table.route,
        accounts=frozenset(table.accounts),
        keys=frozenset(table.keys),
        priority=table.priority,
        weight=table.weight,
        max_streams=table.max_streams,
        include_usage=table.include_usage,
        unknown_fields=table.unknown_fields,
        max_tokens_field=table.max_tokens_field or ("max_completion_tokens" if _is_openai(chat) else "max_tokens"),
        headers=dict(table.headers),
        query=dict(table.query),
        auth=table.auth,
        proxy=table.proxy,
        authorities=_authorities(table, source) if table.ca_file else "",
        supplier=table.supplier,
        revenue_share_nanos=table.revenue_share or 0,
    )


def _authorities(table: ChannelTable, source: Source) -> str:
    """PEM is ASCII; between the certificates may be names in anything."""
    return source.read(table.ca_file).decode("ascii", "ignore")


def _unusable(authorities: str) -> str:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=authorities)
    except (ssl.SSLError, ValueError):
        return "holds no certificate in PEM"
    return ""


def _is_openai(address: str) -> bool:
    host = urlsplit(address).hostname or ""
    return any(host == each or host.endswith(f".{each}") for each in _OPENAI_HOSTS)


def _check_addresses(key: Key, table: ChannelTable, report: Report) -> None:
    if ANY in table.base_url:
        if 0 < len(_VERSIONED & set(table.protocols)) < len(table.protocols):
            hint = 'chat and responses addresses end in a version such as "/v1", the others do not'
            report.warn((*key, "base_url"), f"one address for {', '.join(table.protocols)}: {hint}")
        return
    for protocol in table.protocols:
        if table.base_url and protocol not in table.base_url:
            report.error((*key, "base_url", protocol), f"is missing: the channel speaks {protocol}")


def _check_offers(key: Key, table: ChannelTable, models: Mapping[str, ModelTable], report: Report) -> None:
    seen: set[str] = set()
    for index, offer in enumerate(table.models):
        if offer.name not in models and not report.knows(("models",)):
            report.error((*key, "models", index), f"the model {offer.name!r} has no price: there is no such [models]")
        elif offer.name in seen:
            report.error((*key, "models", index), f"the model {offer.name!r} stands here twice")
        seen.add(offer.name)


def _check_route(key: Key, table: ChannelTable, report: Report) -> None:
    for field in ("accounts", "keys"):
        if field in table.model_fields_set and not getattr(table, field):
            report.error((*key, field), "is empty: name who may use the channel, or leave it out, and all may")
        if getattr(table, field) and table.route != "dedicated" and not report.knows((*key, "route")):
            report.error((*key, field), 'only a channel with route = "dedicated" is restricted to some')


def _check_supplier(key: Key, table: ChannelTable, report: Report) -> None:
    if table.supplier and table.revenue_share is None:
        report.error((*key, "revenue_share"), "is missing: a supplier has a share, and it is never guessed")
    if table.supplier in DOT_SEGMENTS:
        report.error((*key, "supplier"), f"no account can be named {table.supplier}")
    if table.revenue_share is not None and not table.supplier:
        report.error((*key, "supplier"), "is missing: revenue_share is whose?")
