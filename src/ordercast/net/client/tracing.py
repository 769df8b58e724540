"""OpenTelemetry spans of messages, on request (the extra `otel`): send, order, deliver.

The context of a trace travels in the headers of the message, as W3C names them: `traceparent` and
`tracestate`. So a program that gets the message continues the sender's trace, also on another
machine.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ordercast.model.errors import ConfigError, Error
from ordercast.model.groups import Group
from ordercast.model.headers import Headers
from ordercast.model.messages import Delivery

if TYPE_CHECKING:
    from opentelemetry.trace import Span, TracerProvider

_SYSTEM = "ordercast"


class TracedReceipt(Protocol):
    """The receipt of a node or of a client."""

    @property
    def seq(self) -> int: ...

    async def ordered(self) -> None: ...


R_co = TypeVar("R_co", bound=TracedReceipt, covariant=True)


class TracedSender(Protocol[R_co]):
    """A node or a client."""

    async def multicast(
        self, group: Group | Sequence[Group], payload: bytes, headers: Headers = None
    ) -> R_co: ...


class Tracing:
    """Makes spans with the tracer of `provider`, or of the provider that the program has set."""

    def __init__(self, provider: "TracerProvider | None" = None) -> None:
        try:
            from opentelemetry import trace
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        except ImportError:
            raise ConfigError(
                "traces need the extra 'otel': pip install 'ordercast[otel]'"
            ) from None
        self._trace = trace
        self._tracer = trace.get_tracer("ordercast", tracer_provider=provider)
        self._context = TraceContextTextMapPropagator()
        self._following: dict[asyncio.Task[None], None] = {}

    async def multicast(
        self,
        node: TracedSender[R_co],
        group: Group | Sequence[Group],
        payload: bytes,
        headers: Headers = None,
    ) -> R_co:
        """As `node.multicast`, with the span `send GROUP`, which ends when the message is ordered;
        its child `order GROUP` begins when the site has taken the message. Raises the same."""
        name = group if isinstance(group, str) else ",".join(group)
        span = self._tracer.start_span(
            f"send {name}",
            kind=self._trace.SpanKind.PRODUCER,
            attributes={**_about(name), "messaging.message.body.size": len(payload)},
        )
        carried: dict[str, str] = {}
        try:
            with self._trace.use_span(span):  # what is raised inside is noted in the span
                self._context.inject(carried)
                own = {name: value.encode("ascii") for name, value in carried.items()}
                receipt = await node.multicast(group, payload, headers={**(headers or {}), **own})
        except BaseException:
            span.end()
            raise
        if span.is_recording():
            task = asyncio.create_task(self._follow(span, name, receipt))
            self._following[task] = None
            task.add_done_callback(lambda done: self._following.pop(done, None))
        else:
            span.end()
        return receipt

    async def _follow(self, span: "Span", name: str, receipt: TracedReceipt) -> None:
        inside = self._trace.set_span_in_context(span)
        order = self._tracer.start_span(f"order {name}", context=inside, attributes=_about(name))
        try:
            await receipt.ordered()
            order.set_attribute("ordercast.seq", receipt.seq)
        except Error as error:
            order.record_exception(error)
            order.set_status(self._trace.StatusCode.ERROR, str(error))
        finally:
            order.end()
            span.end()

    @contextmanager
    def delivery(self, item: Delivery) -> "Iterator[Span]":
        """The span `deliver GROUP` while the block runs: a child of the message's `send`, if that
        was traced, else the beginning of a trace of its own."""
        carried = {name: value.decode("ascii", "replace") for name, value in item.headers.items()}
        with self._tracer.start_as_current_span(
            f"deliver {item.group}",
            context=self._context.extract(carried),
            kind=self._trace.SpanKind.CONSUMER,
            attributes={
                **_about(item.group),
                "ordercast.position": item.position,
                "ordercast.epoch": item.epoch,
                "ordercast.origin": item.origin,
                "ordercast.seq": item.seq,
            },
        ) as span:
            yield span

    async def close(self) -> None:
        """Wait until the messages under way are ordered, so that their spans end."""
        while self._following:
            await asyncio.wait(list(self._following))


@asynccontextmanager
async def tracing(provider: "TracerProvider | None" = None) -> AsyncIterator[Tracing]:
    """Use it with `async with`: at the end the spans of all messages that were sent have ended."""
    found = Tracing(provider)
    try:
        yield found
    finally:
        await found.close()


def _about(group: Group) -> dict[str, Any]:
    return {"messaging.system": _SYSTEM, "messaging.destination.name": group}
