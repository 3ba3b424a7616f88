"""OpenTelemetry, where the extra ``otel`` is installed and the standard environment variables ask for it.

A span and a few measurements for each stream, by the semantic conventions for generative AI; prompts and outputs, which
these allow, are never among them. Where to and how is the SDK's own business: ``OTEL_EXPORTER_OTLP_ENDPOINT`` (or that
of traces or metrics alone) switches it on, ``OTEL_SDK_DISABLED``, ``OTEL_TRACES_EXPORTER=none`` and
``OTEL_METRICS_EXPORTER=none`` off, and ``OTEL_SERVICE_NAME``, ``OTEL_RESOURCE_ATTRIBUTES``, ``OTEL_TRACES_SAMPLER`` and
the rest mean what they always do. Exports are made by the SDK's threads, from bounded queues: a collector that hangs
costs measurements and nothing else.
"""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import msgspec
import structlog
import trio

from hoptrio import __version__, limits

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from hoptrio.exchange.ended import StreamEnd

__all__ = ["Exporting", "open_telemetry", "wanted"]

log = structlog.get_logger("hoptrio.service")

_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
_PROVIDERS = {"chat": "openai", "responses": "openai", "messages": "anthropic", "gemini": "gcp.gemini"}


def wanted(signal: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Do the environment variables ask for "TRACES" or "METRICS"?"""
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or environ.get(f"OTEL_{signal}_EXPORTER") == "none":
        return False
    return bool(environ.get(_ENDPOINT) or environ.get(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT"))


@asynccontextmanager
async def open_telemetry() -> AsyncIterator[Callable[[StreamEnd], None] | None]:
    """What is to be told of each stream, or None where nobody asks for it; what waits is exported at the end, for a
    bounded time."""
    traces, metrics = wanted("TRACES"), wanted("METRICS")
    if not (traces or metrics):
        yield None
        return
    if find_spec("opentelemetry.sdk") is None or find_spec("opentelemetry.exporter.otlp.proto.http") is None:
        log.warning("OpenTelemetry is asked for and not installed: pip install 'hoptrio[otel]'")
        yield None
        return
    exporting = await trio.to_thread.run_sync(partial(_exporting, traces=traces, metrics=metrics))
    try:
        yield exporting.ended
    finally:
        with trio.move_on_after(limits.OTEL_FLUSH_S, shield=True):
            await trio.to_thread.run_sync(exporting.close, abandon_on_cancel=True)


def _exporting(*, traces: bool, metrics: bool) -> Exporting:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    # The environment's own attributes win.
    resource = Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME", "hoptrio")})
    tracing = TracerProvider(resource=resource, shutdown_on_exit=False)
    if traces:
        tracing.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    readers = [PeriodicExportingMetricReader(OTLPMetricExporter())] if metrics else []
    return Exporting(tracing if traces else None, MeterProvider(readers, resource=resource, shutdown_on_exit=False))


class Exporting:
    """Tells the SDK's providers of streams; `tracing` None = of measurements alone."""

    def __init__(self, tracing: Any, metering: Any) -> None:
        self._tracing = tracing
        self._metering = metering
        self._tracer = None if tracing is None else tracing.get_tracer("hoptrio", __version__)
        meter = metering.get_meter("hoptrio", __version__)
        self._duration = meter.create_histogram(
            "gen_ai.client.operation.duration", "s", "GenAI operation duration.", explicit_bucket_boundaries_advisory=_S
        )
        self._first_chunk = meter.create_histogram(
            "gen_ai.client.operation.time_to_first_chunk",
            "s",
            "Time to receive the first chunk.",
            explicit_bucket_boundaries_advisory=_S,
        )
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            "{token}",
            "Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=_TOKENS,
        )

    def ended(self, end: StreamEnd) -> None:
        """A stream is over."""
        shared = _shared(end)
        usage = _usage(end)
        if self._tracer is not None:
            _trace(self._tracer, end, shared | usage)
        self._duration.record((end.ended_at_ms - end.record.created_at_ms) / 1000, shared)
        if end.first_event_ms is not None:
            self._first_chunk.record(end.first_event_ms / 1000, shared)
        for kind in ("input", "output"):
            if (count := usage.get(f"gen_ai.usage.{kind}_tokens")) is not None:
                self._tokens.record(count, {**shared, "gen_ai.token.type": kind})

    def close(self) -> None:
        """Export what waits. Blocks for as long as the SDK lets it."""
        if self._tracing is not None:
            self._tracing.shutdown()
        self._metering.shutdown()


def _trace(tracer: Any, end: StreamEnd, attributes: dict[str, Any]) -> None:
    from opentelemetry.trace import SpanKind, Status, StatusCode
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    record = end.record
    name = f"{attributes['gen_ai.operation.name']} {record.model}"
    context = TraceContextTextMapPropagator().extract({"traceparent": end.traceparent})
    span = tracer.start_span(
        name, context, SpanKind.CLIENT, {**attributes, **_own(end)}, start_time=_nanos(record.created_at_ms)
    )
    for at_ms, event in record.timeline:
        span.add_event(event, timestamp=_nanos(record.created_at_ms + at_ms))
    if record.reason is not None:
        span.set_status(Status(StatusCode.ERROR, record.reason))
    span.end(_nanos(end.ended_at_ms))


#: The bounds that the conventions ask for.
_S = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)


def _shared(end: StreamEnd) -> dict[str, Any]:
    record = end.record
    shared = {
        "gen_ai.operation.name": "generate_content" if end.spoken == "gemini" else "chat",
        "gen_ai.provider.name": _PROVIDERS.get(end.spoken, end.spoken),
        "gen_ai.request.model": record.model,
    }
    return shared if record.reason is None else {**shared, "error.type": record.reason}


def _usage(end: StreamEnd) -> dict[str, int]:
    """The conventions' input has the cached tokens in it, and their output the reasoning ones."""
    if not end.record.usage:
        return {}
    usage: dict[str, int] = msgspec.json.decode(end.record.usage)
    cached, written = usage["cached_input_tokens"], usage["cache_write_tokens"]
    return {
        "gen_ai.usage.input_tokens": usage["input_tokens"] + cached + written,
        "gen_ai.usage.output_tokens": usage["output_tokens"],
        "gen_ai.usage.cache_read.input_tokens": cached,
        "gen_ai.usage.cache_creation.input_tokens": written,
        "gen_ai.usage.reasoning.output_tokens": usage["reasoning_tokens"],
    }


def _own(end: StreamEnd) -> dict[str, Any]:
    record = end.record
    own: dict[str, Any] = {
        "gen_ai.request.stream": record.stream,
        "hoptrio.request.id": record.id,
        "hoptrio.account": end.account,
        "hoptrio.key": record.key_id,
        "hoptrio.protocol": record.protocol,
        "hoptrio.channel": record.channel or "",
        "hoptrio.contract": record.contract,
        "hoptrio.evidence": record.evidence,
        "hoptrio.attempts": record.attempts,
    }
    if end.first_event_ms is not None:
        own["gen_ai.response.time_to_first_chunk"] = end.first_event_ms / 1000
    return own


def _nanos(at_ms: int) -> int:
    return at_ms * 1_000_000
