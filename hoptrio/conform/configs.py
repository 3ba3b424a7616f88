"""Configs: what a gateway has to be set to so that the upstream is its provider. Pure text.

Settings are those that its own documentation recommends for streams, with what would hide a case switched off: repeated
failures are the point here, so no channel may be taken out of use for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoptrio.protocols.events import Protocol

if TYPE_CHECKING:
    from hoptrio.conform.settings import Settings
    from hoptrio.conform.target import Target

__all__ = ["CONFIGS", "config_for"]

_HOPTRIO = """\
# hoptrio serve --config FILE
# hoptrio account create conform --deposit 1000 --config FILE
# hoptrio key create --account conform --config FILE
[server]
listen = "{listen}"
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
base_url = "http://{provider}{version}"
api_key = "sk-conform"
models = ["{model}"]
route = "dedicated"              # no certificate is asked, so that no probe has to come first
"""
_LITELLM = """\
# LITELLM_MASTER_KEY=sk-... LITELLM_MAX_STREAMING_DURATION_SECONDS={deadline:g} litellm --config FILE --port {port}
model_list:
"""
_LITELLM_MODEL = """\
  - model_name: {model}
    litellm_params:
      model: {vendor}/{model}
      api_base: http://{provider}{version}
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
_VENDORS = {
    Protocol.CHAT: "openai",
    Protocol.RESPONSES: "openai",
    Protocol.MESSAGES: "anthropic",
    Protocol.GEMINI: "gemini",
}


def _hoptrio(provider: str, target: Target, settings: Settings) -> str:
    models = [_HOPTRIO_MODEL.format(stall=settings.stall_s, **_channel(each, provider, target)) for each in Protocol]
    return _HOPTRIO.format(listen=target.address, keepalive=settings.keepalive_s) + "".join(models)


def _litellm(provider: str, target: Target, settings: Settings) -> str:
    models = [_LITELLM_MODEL.format(stall=settings.stall_s, **_channel(each, provider, target)) for each in Protocol]
    head = _LITELLM.format(deadline=settings.deadline_s, port=target.port)
    return head + "".join(models) + _LITELLM_SETTINGS.format(keepalive=settings.keepalive_s)


def _channel(protocol: Protocol, provider: str, target: Target) -> dict[str, str]:
    return {
        "protocol": protocol.value,
        "vendor": _VENDORS[protocol],
        "model": target.model_for(protocol),
        "provider": provider,
        "version": "/v1" if protocol in (Protocol.CHAT, Protocol.RESPONSES) else "",
    }


_MAKERS = {"hoptrio": _hoptrio, "litellm": _litellm}
#: The gateways that there are configs for, and where each is unless something else is said.
CONFIGS = {"hoptrio": "http://127.0.0.1:8080", "litellm": "http://127.0.0.1:4000"}


def config_for(gateway: str, provider: str, target: Target, settings: Settings) -> str:
    """The config of `gateway`, one of `CONFIGS`, with the provider at HOST:PORT and the models of `target`."""
    return _MAKERS[gateway](provider, target, settings)
