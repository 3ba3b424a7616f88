"""What is told of a stream that is over: its log line, its trace and measurements at a collector on this machine."""

from __future__ import annotations

import gzip
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import structlog
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from hoptrio.exchange.ended import StreamEnd
from hoptrio.ledger.model import RequestRecord
from hoptrio.service import otel
from hoptrio.service.observe import log_stream
from hoptrio.service.otel import Exporting, open_telemetry, wanted

TRACE = "0af7651916cd43dd8448eb211c80319c"
USAGE = {
    "input_tokens": 14, "cached_input_tokens": 3, "cache_write_tokens": 2, "output_tokens": 52, "reasoning_tokens": 9,
}  # fmt: skip


def ended(**changes):
    record = {
        "id": "req_1", "account_id": "acct_1", "key_id": "key_1", "created_at_ms": 1_000_000, "protocol": "responses",
        "model": "m", "contract": "hoptrio", "stream": True, "channel": "one", "state": "captured",
        "evidence": "sse_terminal", "usage": json.dumps(USAGE), "charge_nanos": 537_500, "attempts": 1,
        "timeline": ((0, "held"), (3, "dispatched"), (410, "first_event")),
    }  # fmt: skip
    return StreamEnd(
        record=RequestRecord(**record | changes),
        account="acme",
        spoken="messages",
        events=54,
        settled=True,
        ended_at_ms=1_002_000,
        traceparent=f"00-{TRACE}-b7ad6b7169203331-01",
    )


def test_a_stream_is_one_line():
    with structlog.testing.capture_logs() as lines:
        log_stream(ended())
    assert lines == [
        {
            "log_level": "info", "event": "stream", "request": "req_1", "account": "acme", "key": "key_1",
            "protocol": "responses", "model": "m", "channel": "one", "spoken": "messages", "contract": "hoptrio",
            "streamed": True, "outcome": "complete", "evidence": "sse_terminal", "charge": "0.0005375",
            "settled": True, "flags": [], "input_tokens": 14, "output_tokens": 52, "events": 54, "attempts": 1,
            "first_event_ms": 410, "duration_ms": 2000, "client_left": False,
        }
    ]  # fmt: skip


def test_what_is_not_known_of_a_stream_is_null():
    with structlog.testing.capture_logs() as lines:
        log_stream(ended(usage="", charge_nanos=None, reason="truncated", timeline=((0, "client_gone"),)))
    [line] = lines
    assert (line["input_tokens"], line["charge"], line["first_event_ms"]) == (None, None, None)
    assert (line["outcome"], line["client_left"]) == ("truncated", True)


@pytest.fixture
def told():
    """What the SDK is told, kept in memory: (the exporter's `ended`, its spans, its measurements)."""
    spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracing = TracerProvider(shutdown_on_exit=False)
    tracing.add_span_processor(SimpleSpanProcessor(spans))
    exporting = Exporting(tracing, MeterProvider([reader], shutdown_on_exit=False))
    yield exporting.ended, spans.get_finished_spans, lambda: measured(reader)
    exporting.close()


def measured(reader):
    """Every data point by the name of its metric."""
    data = reader.get_metrics_data()
    metrics = [each for resource in data.resource_metrics for scope in resource.scope_metrics for each in scope.metrics]
    return {metric.name: list(metric.data.data_points) for metric in metrics}


def test_a_stream_is_a_span_of_its_callers_trace_by_the_conventions(told):
    tell, spans, _ = told
    tell(ended())
    [span] = spans()
    assert (span.name, span.kind.name, span.status.status_code.name) == ("chat m", "CLIENT", "UNSET")
    assert (f"{span.context.trace_id:032x}", f"{span.parent.span_id:016x}") == (TRACE, "b7ad6b7169203331")
    assert (span.start_time, span.end_time) == (1_000_000 * 10**6, 1_002_000 * 10**6)
    assert [(event.name, event.timestamp // 10**6) for event in span.events][-1] == ("first_event", 1_000_410)
    # The conventions' input has all tokens of the input in it.
    assert {name: value for name, value in span.attributes.items() if name.startswith("gen_ai")} == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": "m",
        "gen_ai.request.stream": True,
        "gen_ai.response.time_to_first_chunk": 0.41,
        "gen_ai.usage.input_tokens": 19,
        "gen_ai.usage.output_tokens": 52,
        "gen_ai.usage.cache_read.input_tokens": 3,
        "gen_ai.usage.cache_creation.input_tokens": 2,
        "gen_ai.usage.reasoning.output_tokens": 9,
    }


def test_a_stream_that_failed_is_an_error_by_its_reason(told):
    tell, spans, _ = told
    tell(ended(reason="stalled", usage="", state="released", charge_nanos=0)._replace(traceparent=""))
    [span] = spans()
    assert (span.status.status_code.name, span.attributes["error.type"], span.parent) == ("ERROR", "stalled", None)


def test_duration_first_chunk_and_tokens_are_measured(told):
    tell, _, points = told
    tell(ended())
    found = points()
    assert [point.sum for point in found["gen_ai.client.operation.duration"]] == [2.0]
    assert [point.sum for point in found["gen_ai.client.operation.time_to_first_chunk"]] == [0.41]
    tokens = {point.attributes["gen_ai.token.type"]: point.sum for point in found["gen_ai.client.token.usage"]}
    assert tokens == {"input": 19, "output": 52}


@pytest.mark.parametrize(
    ("environ", "signals"),
    [
        ({}, []),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, ["TRACES", "METRICS"]),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c"}, ["TRACES"]),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_METRICS_EXPORTER": "none"}, ["TRACES"]),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_SDK_DISABLED": "true"}, []),
    ],
)
def test_the_standard_variables_switch_it(environ, signals):
    assert [signal for signal in ("TRACES", "METRICS") if wanted(signal, environ)] == signals


@contextmanager
def collector():
    """A real receiver of OTLP over HTTP; yields its URL and the bodies it got by path."""
    got = {}

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            got.setdefault(self.path, []).append(body)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", got
        finally:
            server.shutdown()
            thread.join()


async def test_a_collector_gets_what_waits_when_the_process_ends(monkeypatch):
    with collector() as (url, got):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        monkeypatch.setenv("OTEL_SERVICE_NAME", "our gateway")
        async with open_telemetry() as tell:
            assert tell is not None
            tell(ended())
    [traces] = got["/v1/traces"]
    [resource] = ExportTraceServiceRequest.FromString(traces).resource_spans
    assert [span.name for scope in resource.scope_spans for span in scope.spans] == ["chat m"]
    names = {each.key: each.value.string_value for each in resource.resource.attributes}
    assert names["service.name"] == "our gateway"
    [resource] = ExportMetricsServiceRequest.FromString(got["/v1/metrics"][-1]).resource_metrics
    metrics = {metric.name for scope in resource.scope_metrics for metric in scope.metrics}
    assert "gen_ai.client.token.usage" in metrics


async def test_where_nobody_asks_nothing_is_loaded(monkeypatch):
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    async with open_telemetry() as tell:
        assert tell is None


async def test_without_the_extra_it_is_said_and_nothing_fails(monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(otel, "find_spec", lambda _name: None)
    with structlog.testing.capture_logs() as lines:
        async with open_telemetry() as tell:
            assert tell is None
    assert "hoptrio[otel]" in lines[0]["event"]
