"""The fields and headers of a request that change its price, and what becomes of each (contract, "The hold").

A field that selects a price table by name yields a `Tier`, which admission refuses unless the model has that table;
values that select the standard price pass. A field whose price no table can express, because the answer's usage does
not tell it apart (audio, other models, work that outlives the response), is refused outright. Any other field passes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from hoptrio.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "CHAT",
    "IMAGES",
    "MESSAGES",
    "MESSAGES_BETAS",
    "RESPONSES",
    "STANDARD",
    "Tier",
    "refuse",
    "tier_of",
    "unsupported",
]

#: Values of ``service_tier`` and ``speed`` that select the standard price, at any provider.
STANDARD = frozenset({"default", "standard", "standard_only", "on_demand", "unspecified", "service_tier_unspecified"})
#: OpenAI answers a request for "fast" with "priority": one tier under two names (protocols page 10.2).
_ALIASES = {"service_tier": {"fast": "priority"}}

#: Fields refused outright, with what a value must be for the request to pass all the same.
CHAT: Mapping[str, tuple[object, ...]] = {
    "audio": (),
    "background": (False,),
    # OpenRouter: other models, and what they cost; searches by the result.
    "models": ([],),
    "preset": (),
    "plugins": ([],),
    # Live searches of xAI and Qwen, priced by the source and by the call.
    "search_parameters": ({"mode": "off"},),
    "enable_search": (False,),
}
#: In Images ``background`` is that of the picture.
IMAGES: Mapping[str, tuple[object, ...]] = {"models": ([],), "plugins": ([],)}
RESPONSES: Mapping[str, tuple[object, ...]] = {
    "audio": (),
    "background": (False,),
    "background_options": (),
    "models": ([],),
    "preset": (),
    "plugins": ([],),
}
MESSAGES: Mapping[str, tuple[object, ...]] = {
    "background": (False,),
    # Who is billed, which models answer, where it runs: none of it is told apart by the usage.
    "billing_policy": ({"type": "billing_policy", "bill_to": "self"},),
    "fallbacks": ([],),
    "inference_geo": ("global",),
    "models": ([],),
}
#: Prefixes in ``anthropic-beta``, in lower case, that raise the price of long prompts.
MESSAGES_BETAS = ("context-1m-",)


class Tier(NamedTuple):
    """The price table a request selects (None = standard), by which field, and whether the provider may choose."""

    name: str | None
    param: str
    open: bool


def unsupported(param: str) -> BadRequest:
    """The error for a field that changes the price in a way the model's prices do not name."""
    return BadRequest(
        f"Unsupported parameter: '{param}' with this value changes the price and is not sold here.",
        param=param,
        code="unsupported_parameter",
    )


def refuse(body: Mapping[str, Any], table: Mapping[str, tuple[object, ...]]) -> None:
    """Raise BadRequest for a field of `table` that is present with a value that matters."""
    for name, harmless in table.items():
        value = body.get(name)
        if value is not None and value not in harmless:
            raise unsupported(name)


def tier_of(body: Mapping[str, Any], fields: tuple[str, ...], *, automatic: bool) -> Tier:
    """The tier that `fields` select together.

    `automatic` = at this protocol's providers an absent field means "auto", which may be served, and is then reported
    and priced, as "priority". Raises BadRequest for a value that is not a string, and for two tiers at once.
    """
    chosen = Tier(None, "", open=automatic)
    for field in fields:
        value = body.get(field)
        if value is None or value == "auto":
            continue
        if type(value) is not str:
            raise BadRequest(f"Invalid type for '{field}': expected a string.", param=field, code="invalid_type")
        name = _ALIASES.get(field, {}).get(value.lower(), value.lower())
        if name in STANDARD:
            chosen = chosen._replace(open=chosen.open and field == "speed")
        elif chosen.name is None:
            chosen = Tier(name, field, open=False)
        else:
            raise BadRequest(f"'{field}' and '{chosen.param}' cannot both select a price.", param=field)
    return chosen
