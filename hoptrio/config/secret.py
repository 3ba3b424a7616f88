"""Where a secret comes from: ``env:NAME``, ``file:PATH`` (one trailing line end is not part of it), or the text itself.

An error names the variable or the file, never a value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, ValidationInfo

if TYPE_CHECKING:
    from hoptrio.config.source import Source

__all__ = ["HeaderSecret", "Secret"]


def _resolve(text: str, info: ValidationInfo[Source]) -> str:
    source = info.context
    kind, colon, name = text.partition(":")
    if not colon or kind not in ("env", "file"):
        secret, called = text, "this text"
    else:
        secret, called = _from_environment(name, source) if kind == "env" else _from_file(name, source), text
    if not secret.isprintable():
        raise ValueError(f"{called} holds more than one line or an unprintable character")
    return secret


def _for_a_header(secret: str) -> str:
    if not secret.isascii():
        raise ValueError("this holds a character that no HTTP header can carry, such as a typographic dash or quote")
    return secret


def _from_environment(name: str, source: Source) -> str:
    if not name:
        raise ValueError("env: names no variable; write env:NAME")
    value = source.environ.get(name)
    if not value:
        raise ValueError(f"the environment variable {name} is {'empty' if value == '' else 'not set'}")
    return value


def _from_file(name: str, source: Source) -> str:
    path = source.directory / name
    try:
        text = source.read(name).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"the file {path} cannot be read ({type(error).__name__})") from None
    if not text.strip():
        raise ValueError(f"the file {path} is empty")
    return text.removesuffix("\n").removesuffix("\r")


#: A string that may refer to a secret. A field of this type is declared with ``repr=False``.
Secret = Annotated[str, AfterValidator(_resolve)]
#: One that is sent in a header (RFC 9110 section 5.5).
HeaderSecret = Annotated[Secret, AfterValidator(_for_a_header)]
