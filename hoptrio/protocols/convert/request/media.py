"""Images and documents between data URIs, base64 and URLs. Pure; the data itself is never decoded but for text."""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING

from hoptrio.errors import BadRequest
from hoptrio.protocols.convert.request.conversation import Document, Image, Text

if TYPE_CHECKING:
    from hoptrio.protocols.convert.request.conversation import Part

__all__ = ["data_uri", "document_of_uri", "image_of_uri", "media_of_data", "media_of_url", "text_of_base64"]

#: ``type/subtype``, without parameters.
_MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+", re.ASCII)
_WEB = ("https://", "http://")


def data_uri(media_type: str, data: str) -> str:
    return f"data:{media_type};base64,{data}"


def image_of_uri(uri: str, *, detail: str, param: str) -> Image:
    """An image by its data URI or web address. Raises BadRequest for any other."""
    if uri.startswith(_WEB):
        return Image(url=uri, detail=detail, param=param)
    media_type, data = _split(uri, param)
    if not media_type.startswith("image/"):
        raise BadRequest(f"Invalid '{param}': expected the data URI of an image.", param=param)
    return Image(media_type=media_type, data=data, detail=detail, param=param)


def document_of_uri(uri: str, *, title: str, param: str) -> Part:
    """A document by its data URI, or by its bare base64, which is a PDF's; one of plain text is its text."""
    media_type, data = _split(uri, param) if uri.startswith("data:") else ("application/pdf", uri)
    return media_of_data(media_type, data, title=title, param=param)


def media_of_data(media_type: str, data: str, *, title: str = "", param: str) -> Part:
    """An image, a document or a text, by its media type. Raises BadRequest for sound and moving pictures."""
    kind = media_type.partition(";")[0].strip().lower()
    if kind.startswith("image/"):
        return Image(media_type=kind, data=data, param=param)
    if kind.startswith(("audio/", "video/")):
        raise BadRequest(
            f"Unsupported '{param}': sound and video are not converted.", param=param, code="unsupported_parameter"
        )
    if kind.startswith("text/"):
        return Text(text_of_base64(data, param))
    return Document(media_type=kind, data=data, title=title, param=param)


def media_of_url(url: str, media_type: str, *, title: str = "", param: str) -> Part:
    """An image or a document at a web address. Raises BadRequest for an address that only the provider knows."""
    if not url.startswith(_WEB):
        raise BadRequest(f"Invalid '{param}': expected an http or https URL.", param=param)
    if media_type.startswith(("audio/", "video/")):
        raise BadRequest(
            f"Unsupported '{param}': sound and video are not converted.", param=param, code="unsupported_parameter"
        )
    if media_type.startswith("image/"):
        return Image(url=url, media_type=media_type, param=param)
    return Document(url=url, media_type=media_type, title=title, param=param)


def text_of_base64(data: str, param: str) -> str:
    """The text that `data` is. Raises BadRequest if it is none."""
    try:
        return base64.b64decode(data, validate=True).decode()
    except (binascii.Error, ValueError):
        raise BadRequest(f"Invalid '{param}': expected base64 of UTF-8 text.", param=param) from None


def _split(uri: str, param: str) -> tuple[str, str]:
    """Media type and base64 data of a data URI (RFC 2397), which is cut at its comma and not searched."""
    head, comma, data = uri.partition(",")
    media_type, _, encoding = head.removeprefix("data:").partition(";")
    if not comma or not head.startswith("data:") or not encoding.endswith("base64"):
        raise BadRequest(f"Invalid '{param}': expected a base64 data URI or a web address.", param=param)
    if not _MEDIA_TYPE.fullmatch(media_type):
        raise BadRequest(f"Invalid '{param}': the data URI names no media type.", param=param)
    return media_type.lower(), data
