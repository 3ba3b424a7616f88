"""Images as the simulated provider makes them: a picture of one pixel, or of as many bytes as the script's ``size``.

Usage is in the answer as newer image models have it, `events` output tokens an image; ``usage=none`` is an older one.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from hoptrio.simulator.answer import distort

if TYPE_CHECKING:
    from hoptrio.simulator.prompt import Prompt
    from hoptrio.simulator.script import Script

__all__ = ["images_body"]

_CREATED = 1_780_000_000
_PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def images_body(prompt: Prompt, script: Script) -> dict[str, Any]:
    """The whole answer. A PNG may be followed by anything, so padding leaves it a picture."""
    picture = base64.b64encode(_PIXEL.ljust(script.size, b"\0")).decode()
    read = prompt.input_tokens if script.input is None else script.input
    made = script.events * prompt.choices if script.output is None else script.output
    usage = {
        "input_tokens": read,
        "output_tokens": made,
        "total_tokens": read + made if script.total is None else script.total,
        "input_tokens_details": {"text_tokens": read, "image_tokens": 0},
    }
    body = {"created": _CREATED, "data": [{"b64_json": picture}] * prompt.choices}
    return body if script.usage == "none" else body | {"usage": distort(usage, script.usage)}
