"""Embeddings as the simulated provider makes them: eight numbers, or as many as asked for, a function of the text."""

from __future__ import annotations

import base64
import hashlib
import struct
from typing import TYPE_CHECKING, Any

from hoptrio.simulator.answer import distort

if TYPE_CHECKING:
    from hoptrio.simulator.prompt import Prompt
    from hoptrio.simulator.script import Script

__all__ = ["embeddings_body"]

_DIMENSIONS = 8


def embeddings_body(prompt: Prompt, script: Script) -> dict[str, Any]:
    """The whole answer, in base64 where the request asks for it, as OpenAI's SDKs do."""
    count = prompt.input_tokens if script.input is None else script.input
    usage = distort(
        {"prompt_tokens": count, "total_tokens": count if script.total is None else script.total}, script.usage
    )
    vectors = (_vector(text, prompt.dimensions or _DIMENSIONS) for text in prompt.texts)
    data = [
        {"object": "embedding", "index": index, "embedding": _base64(vector) if prompt.base64 else vector}
        for index, vector in enumerate(vectors)
    ]
    body = {"object": "list", "data": data, "model": prompt.model}
    return body if script.usage == "none" else body | {"usage": usage}


def _vector(text: str, dimensions: int) -> list[float]:
    """Exact in 32 bits, so that either form has the same numbers."""
    digest = hashlib.shake_256(text.encode()).digest(dimensions)
    return [byte / 128 - 1 for byte in digest]


def _base64(vector: list[float]) -> str:
    """Little-endian floats of 32 bits."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
