"""A control plane far away: operations through its API, with the same arguments, answers and errors as near by."""

from __future__ import annotations

import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import certifi
import httpx
import msgspec

from hoptrio import errors, limits
from hoptrio.control.shapes import Problem, ProblemDetail

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from hoptrio.control.operation import Operation

__all__ = ["Far", "far"]

Takes = TypeVar("Takes")
Gives = TypeVar("Gives")


@asynccontextmanager
async def far(
    url: str, token: str, *, ca_file: Path | None = None, transport: httpx.AsyncBaseTransport | None = None
) -> AsyncIterator[Far]:
    """The control plane at `url` (``http://HOST:PORT`` or ``https://HOST:PORT``), whose certificate an authority in
    `ca_file` vouches for, else one of the system's. `transport` is another way there than sockets.

    Raises BadRequest for a `ca_file` without authorities.
    """
    headers = {"authorization": f"Bearer {token}", "accept": "application/json"}
    timeout = httpx.Timeout(limits.CONTROL_CALL_S, connect=limits.CONNECT_S)
    async with httpx.AsyncClient(
        base_url=url,
        headers=headers,
        timeout=timeout,
        follow_redirects=False,
        transport=transport,
        verify=_trusting(ca_file),
    ) as client:
        yield Far(client)


class Far:
    """Calls operations."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def call(self, operation: Operation[Takes, Gives], asked: Takes) -> Gives:
        """What `Operation.run` would do there. Raises its HoptrioErrors, and one with the code ``control_plane`` if the
        control plane does not answer as one."""
        members: dict[str, Any] = {
            name: value for name, value in msgspec.to_builtins(asked).items() if value is not None
        }
        path = operation.path.format(**{name: quote(str(members.pop(name)), safe="") for name in operation.path_names})
        try:
            if operation.changes:
                answer = await self._client.request(operation.method, path, json=members)
            else:
                answer = await self._client.request(operation.method, path, params=members or None)
        except httpx.HTTPError as error:
            if (distrust := _distrust(error)) is not None:
                told = f"the certificate of {self._client.base_url} is not accepted: {distrust}"
                raise _silent(f"{told}; --control-ca names the authority that vouches for it") from error
            raise _silent(f"{self._client.base_url} does not answer ({type(error).__name__})") from error
        if answer.status_code != operation.status:
            raise _refusal(answer)
        try:
            return msgspec.json.decode(answer.content, type=operation.gives)
        except msgspec.MsgspecError:
            raise _silent(f"{self._client.base_url} answers what this version does not understand") from None


def _trusting(ca_file: Path | None) -> ssl.SSLContext:
    """A machine without authorities, or a binary that does not find them, has at least the public ones."""
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except ssl.SSLError:
        raise errors.BadRequest(f"{ca_file} holds no certificate in PEM.") from None
    if ca_file is None:
        context.load_verify_locations(certifi.where())
    return context


def _distrust(error: BaseException | None) -> str | None:
    """Why a certificate was not accepted, if that is what failed."""
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return None if error is None else error.verify_message


def _refusal(answer: httpx.Response) -> errors.HoptrioError:
    told = _told(answer.content)
    if told is None or told.code == "unknown_path":
        return _silent(f"{answer.url.copy_with(query=None)} answered {answer.status_code}: is it a control plane?")
    if answer.status_code == errors.InvalidKey.status:
        return errors.InvalidKey(f"{told.message} Is HOPTRIO_CONTROL_TOKEN set to it?", code=told.code)
    if answer.status_code == errors.BadRequest.status:
        return errors.BadRequest(told.message, code=told.code)
    return errors.HoptrioError(told.message, code=told.code)


def _told(content: bytes) -> ProblemDetail | None:
    try:
        return msgspec.json.decode(content, type=Problem).error
    except msgspec.MsgspecError:
        return None


def _silent(message: str) -> errors.HoptrioError:
    return errors.HoptrioError(message, code="control_plane")
