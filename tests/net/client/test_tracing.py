"""Spans of messages: from the sender to everybody who delivers."""

import asyncio
import sys

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ordercast.model.errors import ConfigError, UnknownGroup
from ordercast.model.messages import Delivery
from ordercast.net.client.tracing import Tracing, tracing
from ordercast.net.local import local_cluster
from ordercast.net.site.node import Node, site_of
from support.harness.loops import in_loop

GROUPS = {"alpha": ["a", "b"], "beta": ["b"]}


def exported() -> tuple[TracerProvider, InMemorySpanExporter]:
    provider, spans = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    return provider, spans


async def first(node: Node) -> Delivery:
    async for item in node.deliveries():
        if isinstance(item, Delivery):
            return item
    raise AssertionError("the stream has ended")


async def with_headers(node: Node) -> None:
    async with asyncio.timeout(30):
        while "headers" not in site_of(node).core.layout.features:
            await asyncio.sleep(0.005)


@in_loop
async def test_a_trace_goes_from_the_sender_to_everybody_who_delivers() -> None:
    provider, spans = exported()
    async with local_cluster(GROUPS) as cluster, tracing(provider) as traced:
        await with_headers(cluster["a"])
        await traced.multicast(cluster["a"], "alpha", b"payload", {"mine": b"kept"})
        for site in ("a", "b"):
            item = await first(cluster[site])
            assert item.headers["mine"] == b"kept"
            with traced.delivery(item), provider.get_tracer("app").start_as_current_span("handle"):
                pass
    found: dict[str, list[ReadableSpan]] = {}
    for span in spans.get_finished_spans():
        found.setdefault(span.name, []).append(span)
    assert {name: len(each) for name, each in found.items()} == {
        "send alpha": 1, "order alpha": 1, "deliver alpha": 2, "handle": 2,
    }  # fmt: skip
    (send,), (order,) = found["send alpha"], found["order alpha"]
    assert {span.context.trace_id for span in spans.get_finished_spans() if span.context} == {
        send.context.trace_id
    }
    for below in (order, *found["deliver alpha"]):
        assert below.parent is not None
        assert below.parent.span_id == send.context.span_id
    for span in found["handle"]:
        assert span.parent is not None
        assert span.parent.span_id in [each.context.span_id for each in found["deliver alpha"]]
    assert order.end_time is not None
    assert send.start_time is not None
    assert send.end_time is not None
    assert send.start_time < order.end_time <= send.end_time
    assert order.attributes is not None
    assert order.attributes["ordercast.seq"] == 1


@in_loop
async def test_a_send_that_is_refused_is_a_span_with_an_error() -> None:
    provider, spans = exported()
    async with local_cluster(GROUPS) as cluster, tracing(provider) as traced:
        await with_headers(cluster["a"])
        with pytest.raises(UnknownGroup):
            await traced.multicast(cluster["a"], "alfa", b"x")
    (span,) = spans.get_finished_spans()
    assert span.name == "send alfa"
    assert not span.status.is_ok


@in_loop
async def test_a_message_without_a_trace_begins_one() -> None:
    provider, spans = exported()
    async with local_cluster(GROUPS) as cluster:
        await cluster["a"].multicast("alpha", b"x")
        with Tracing(provider).delivery(await first(cluster["b"])):
            pass
    (span,) = spans.get_finished_spans()
    assert span.parent is None


def test_without_the_extra_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ConfigError, match=r"pip install 'ordercast\[otel\]'"):
        Tracing()
