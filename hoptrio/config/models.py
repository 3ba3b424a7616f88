"""``[models.NAME]``: a model's prices and limits. A model that generates needs both a price and a limit of its output;
one that has neither is an embeddings or image model, and only that can be asked of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoptrio.admission.catalogue import Model
from hoptrio.metering.price import Prices

if TYPE_CHECKING:
    from hoptrio.config.problem import Key, Report
    from hoptrio.config.schema import ModelTable, PriceTable

__all__ = ["check_model", "make_model"]

#: What a model that generates has, and one for embeddings or images may lack.
_OUTPUT = ("output", "max_output_tokens")


def check_model(name: str, table: ModelTable, report: Report) -> None:
    """Report the prices and limits that are missing."""
    key: Key = ("models", name)
    sells_output = [field for field in _OUTPUT if getattr(table, field) is not None or report.knows((*key, field))]
    required = ["input", "max_input_tokens", *(_OUTPUT if sells_output else ())]
    for field in required:
        if getattr(table, field) is None:
            report.error((*key, field), "is missing")
    for tier, prices in table.tiers.items():
        for field in required:
            if field in ("input", "output") and getattr(prices, field) is None:
                report.error((*key, "tiers", tier, field), "is missing")


def make_model(name: str, table: ModelTable) -> Model:
    """The value that admission works with, of a table without mistakes."""
    assert table.max_input_tokens is not None
    return Model(
        name=name,
        prices=_prices(table, table),
        tiers={tier: _prices(prices, table) for tier, prices in table.tiers.items()},
        max_input_tokens=table.max_input_tokens,
        max_output_tokens=table.max_output_tokens,
        stall_s=table.stall_seconds,
        # A model that is sold by the image makes images, unless the table knows better.
        makes=table.makes or ("text" if table.image is None else "images"),
    )


def _prices(table: PriceTable, standard: PriceTable) -> Prices:
    """The defaults of the interface: cached input and cache writes cost as input, the one-hour write twice that. A tier
    that does not price tools or images has the model's."""
    assert table.input is not None
    return Prices(
        input=table.input,
        output=_or(table.output, 0),
        cached_input=_or(table.cached_input, table.input),
        cache_write=_or(table.cache_write, table.input),
        cache_write_1h=_or(table.cache_write_1h, 2 * table.input),
        tools=dict((standard.tools if table.tools is None else table.tools) or {}),
        image=standard.image if table.image is None else table.image,
    )


def _or(price: int | None, default: int) -> int:
    return default if price is None else price
