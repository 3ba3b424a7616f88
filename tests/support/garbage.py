"""Garbage: what is not freed with its last reference, and waits for the cyclic collector. In a gateway with few
requests it does not look for a long time: state of hundreds of streams would lie about, buffers of TLS included."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["uncollected"]


@contextmanager
def uncollected() -> Iterator[Callable[..., set[str]]]:
    """In the block the collector looks only when it is asked, and names the classes of some packages that it found."""

    def found(*packages: str) -> set[str]:
        gc.collect()
        kinds = {type(each) for each in gc.garbage}
        gc.garbage.clear()
        return {each.__qualname__ for each in kinds if each.__module__.startswith(packages)}

    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield found
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
