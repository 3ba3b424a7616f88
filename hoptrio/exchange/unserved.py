"""Endpoints of the vendors that hoptrio knows and does not serve, so that a caller is told which of both it is.

From the vendors' API references (November 2026): OpenAI, Anthropic, Google. Each answers in its vendor's error shape.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hoptrio.protocols.events import Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["UNSERVED_VERBS", "unserved"]

#: Methods of Google's models, behind a colon.
UNSERVED_VERBS = (
    *("embedContent", "batchEmbedContents", "asyncBatchEmbedContent", "embedText", "batchEmbedText"),
    *("batchGenerateContent", "bidiGenerateContent", "predict", "predictLongRunning", "computeTokens"),
    *("generateAnswer", "generateMessage", "generateText", "countMessageTokens", "countTextTokens"),
)
_OPENAI = (
    *("admin", "assistants", "audio", "batches", "chatkit", "completions", "containers", "conversations", "edits"),
    *("embeddings/.+", "engines", "evals", "files", "fine-tunes", "fine_tuning", "images/(?:edits|variations)"),
    *("moderations", "organization", "projects", "realtime", "rerank", "skills", "threads", "uploads"),
    *("vector_stores", "videos"),
)
_ANTHROPIC = ("agents", "environments", "memory_stores", "organizations", "sessions", "vaults")
_GOOGLE = (
    *("auth_tokens", "batches", "cachedContents", "corpora", "dynamic", "fileSearchStores", "files", "generatedFiles"),
    *("interactions", "operations"),
)
#: OpenAI's and Anthropic's files, batches and skills have the same paths: the caller's headers tell whose it is.
_CALLERS_OWN = re.compile(rf"/v1/(?:{'|'.join(_OPENAI)})(?:/.*)?|/v1/chat/completions/.+")
_UNSERVED: Mapping[Protocol, re.Pattern[str]] = {
    # Google's, for OpenAI's clients.
    Protocol.CHAT: re.compile(r"/v1beta/openai(?:/.*)?"),
    Protocol.RESPONSES: re.compile(r"/v1/responses/(?:compact|[^/]+/(?:cancel|input_items))"),
    Protocol.MESSAGES: re.compile(rf"/v1/messages/batches(?:/.*)?|/v1/complete|/v1/(?:{'|'.join(_ANTHROPIC)})(?:/.*)?"),
    Protocol.GEMINI: re.compile(
        rf"(?:/upload)?/v1(?:alpha|beta)/(?:{'|'.join(_GOOGLE)})(?:[/:].*)?|/v1/(?:cachedContents|corpora)(?:[/:].*)?|"
        rf"/v1(?:alpha|beta)?/(?:models|tunedModels)/.*:(?:{'|'.join(UNSERVED_VERBS)})|/ws/google\.ai\..*|/upload/v1/files"
    ),
}


def unserved(path: str, headers: Mapping[str, str]) -> Protocol | None:
    """Whose endpoint a path is, if it is a known one that is not served; `headers` tell the vendors' clients apart."""
    for protocol, pattern in _UNSERVED.items():
        if pattern.fullmatch(path):
            return protocol
    if not _CALLERS_OWN.fullmatch(path):
        return None
    if "anthropic-version" in headers:
        return Protocol.MESSAGES
    return Protocol.GEMINI if "x-goog-api-key" in headers else Protocol.CHAT
