"""An operation: what the control plane can do, once, for everybody who asks.

It has a name, a place in HTTP, what it takes and gives as structs (`shapes`), and a function on an `Office`. The API
serves it, the OpenAPI description is made of it, pages and the command line call it, and a command line far away calls
it through HTTP (`far`): none of them knows more than is here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hoptrio.control.office import Office
    from hoptrio.errors import HoptrioError

__all__ = ["Operation", "operation"]

Takes = TypeVar("Takes")
Gives = TypeVar("Gives")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Generic[Takes, Gives]):
    """`refuses`: the errors that it raises beside those of every operation; they are documented."""

    name: str
    method: str
    path: str
    takes: type[Takes]
    gives: type[Gives]
    summary: str
    tag: str
    status: int
    refuses: tuple[type[HoptrioError], ...]
    run: Callable[[Office, Takes], Awaitable[Gives]]

    @property
    def path_names(self) -> tuple[str, ...]:
        """The members of `takes` that are in the path; the others are in the query, or in the body of a change."""
        return tuple(re.findall(r"{(\w+)}", self.path))

    @property
    def changes(self) -> bool:
        """It has a body, and is no question."""
        return self.method != "GET"


def operation(
    method: str,
    path: str,
    takes: type[Takes],
    gives: type[Gives],
    *,
    status: int = 200,
    refuses: tuple[type[Any], ...] = (),
) -> Callable[[Callable[[Office, Takes], Awaitable[Gives]]], Operation[Takes, Gives]]:
    """Make a function an operation. Its name and the first line of its docstring are the operation's."""

    def made(run: Callable[[Office, Takes], Awaitable[Gives]]) -> Operation[Takes, Gives]:
        return Operation(
            name=run.__name__,
            method=method,
            path=path,
            takes=takes,
            gives=gives,
            summary=(run.__doc__ or "").partition("\n")[0].rstrip("."),
            tag=run.__module__.rpartition(".")[2],
            status=status,
            refuses=refuses,
            run=run,
        )

    return made
