"""The addresses of the Cluster page: samples as a stream of events, pictures, one site."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from ordercast.model.errors import ConfigError
from ordercast.model.names import nearest
from ordercast.web import cluster_view
from ordercast.web.answers import answers, body_of, number_of
from ordercast.web.controls import Controls
from ordercast.web.feed import NotYet, Sampler
from ordercast.web.stream_figures import StreamFigures

_WIDTHS = (240, 4000)


def cluster_routes(
    sampler: Sampler, controls: Controls | None, figures: StreamFigures | None
) -> list[BaseRoute]:
    @answers
    async def first(_request: Request) -> Response:
        try:
            found = cluster_view.first(await sampler.once(), sampler)
        except NotYet as error:
            return JSONResponse({"running": str(error)})
        return JSONResponse({**found, "control": controls.told() if controls else None})

    @answers
    async def control(request: Request) -> Response:
        if controls is None:
            raise ConfigError("this server only looks: start it with --control")
        return JSONResponse({"done": await controls.do(await body_of(request))})

    @answers
    async def pictures(request: Request) -> Response:
        width = number_of(request.query_params, "width", *_WIDTHS)
        return JSONResponse(cluster_view.drawn(await sampler.once(), width))

    @answers
    async def site(request: Request) -> Response:
        view, name = await sampler.once(), request.query_params.get("site", "")
        if name not in view.sites:
            raise ConfigError(f"there is no site {name!r}{nearest(name, view.sites)}")
        told = figures.of_site(name) if figures is not None else []
        return JSONResponse({**cluster_view.site_detail(view, name), "stream": told})

    @answers
    async def stream(_request: Request) -> Response:
        if figures is None:
            return JSONResponse(None)
        await asyncio.to_thread(figures.look)
        return JSONResponse(figures.told())

    async def samples(_request: Request) -> Response:
        return StreamingResponse(_events(sampler), media_type="text/event-stream")

    return [
        Route("/api/cluster/stream", stream),
        Route("/api/cluster", first),
        Route("/api/cluster/pictures", pictures),
        Route("/api/cluster/site", site),
        Route("/api/cluster/samples", samples),
        Route("/api/cluster/control", control, methods=["POST"]),
    ]


async def _events(sampler: Sampler) -> AsyncIterator[bytes]:
    async for view in sampler.samples():
        if view is None:
            yield _event("trouble", sampler.trouble)
        else:
            yield _event("sample", cluster_view.sample(view, sampler))


def _event(kind: str, data: object) -> bytes:
    return b"event: " + kind.encode() + b"\ndata: " + msgspec.json.encode(data) + b"\n\n"
