"""Configs: what a gateway has to be set to so that the upstream is its provider. Pure text.

Settings are those that its own documentation recommends for streams, with what would hide a case switched off: repeated
failures are the point here, so no channel may be taken out of use for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoptrio.protocols.events import Protocol

if TYPE_CHECKING:
    from hoptrio.conform.settings import Settings

__all__ = ["CONFIGS", "config_for"]

_HOPTRIO = """\
# hoptrio serve --config FILE
# hoptrio account create conform --deposit 1000 --config FILE
# hoptrio key create --account conform --config FILE
[server]
listen = "127.0.0.1:8080"
contract = "conform"
released_output_limit = 0        # failures are the point here

[ledger]
url = "sqlite:///conform.db"

[contracts.conform]
preset = "hoptrio"
keepalive_seconds = {keepalive:g}
"""
_HOPTRIO_MODEL = """
[models."{model}"]
input = "1"
output = "2"
max_input_tokens = 100000
max_output_tokens = 100000
stall_seconds = {stall:g}

[channels.{protocol}]
protocols = ["{protocol}"]
base_url = "http://{upstream}{version}"
api_key = "sk-conform"
models = ["{model}"]
route = "dedicated"              # no certificate is asked, so that no probe has to come first
"""
_LITELLM = """\
# LITELLM_MASTER_KEY=sk-... LITELLM_MAX_STREAMING_DURATION_SECONDS={deadline:g} litellm --config FILE --port 4000
model_list:
"""
_LITELLM_MODEL = """\
  - model_name: {model}
    litellm_params:
      model: {provider}/{model}
      api_base: http://{upstream}{version}
      api_key: sk-conform
      stream_timeout: {stall:g}
"""
_LITELLM_SETTINGS = """\
litellm_settings:
  num_retries: 0
  sse_keepalive_ping_interval_seconds: {keepalive:g}
router_settings:
  num_retries: 0
  disable_cooldowns: true          # failures are the point here
"""
_PROVIDERS = {
    Protocol.CHAT: "openai",
    Protocol.RESPONSES: "openai",
    Protocol.MESSAGES: "anthropic",
    Protocol.GEMINI: "gemini",
}


def _hoptrio(upstream: str, model: str, settings: Settings) -> str:
    parts = [_HOPTRIO.format(keepalive=settings.keepalive_s)]
    for protocol in Protocol:
        parts.append(
            _HOPTRIO_MODEL.format(
                model=model.replace("{protocol}", protocol),
                protocol=protocol,
                upstream=upstream,
                version="/v1" if protocol in (Protocol.CHAT, Protocol.RESPONSES) else "",
                stall=settings.stall_s,
            )
        )
    return "".join(parts)


def _litellm(upstream: str, model: str, settings: Settings) -> str:
    parts = [_LITELLM.format(deadline=settings.deadline_s)]
    for protocol in Protocol:
        parts.append(
            _LITELLM_MODEL.format(
                model=model.replace("{protocol}", protocol),
                provider=_PROVIDERS[protocol],
                upstream=upstream,
                version="/v1" if protocol in (Protocol.CHAT, Protocol.RESPONSES) else "",
                stall=settings.stall_s,
            )
        )
    return "".join(parts) + _LITELLM_SETTINGS.format(keepalive=settings.keepalive_s)


#: Makers by the gateway's name.
CONFIGS = {"hoptrio": _hoptrio, "litellm": _litellm}


def config_for(gateway: str, *, upstream: str, model: str, settings: Settings) -> str:
    """The config of `gateway`, one of `CONFIGS`, with the provider at `upstream` (HOST:PORT)."""
    return CONFIGS[gateway](upstream, model, settings)
