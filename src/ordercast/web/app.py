"""The application: which address gives what. Pages are HTML, the rest is JSON or a stream."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import (
    FileResponse,
    HTMLResponse,
    JSONResponse,
    RedirectResponse,
    Response,
)
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from ordercast.history.rows import History
from ordercast.model.errors import ConfigError
from ordercast.sim.trace.assembly import trace_of_history
from ordercast.sim.trace.space_time import STYLE as DIAGRAM
from ordercast.sim.trace.trace import Trace
from ordercast.web import pages, planner, runs
from ordercast.web.access import COOKIE, Access, PageGuard
from ordercast.web.answers import Handler, answers, body_of, text_of
from ordercast.web.cluster_routes import cluster_routes
from ordercast.web.controls import Controls
from ordercast.web.epoch_line import STYLE as EPOCHS
from ordercast.web.feed import Sampler
from ordercast.web.forest_picture import STYLE as FOREST
from ordercast.web.pending_run import PendingRun
from ordercast.web.runs import ParseLine, Runs
from ordercast.web.stream_figures import StreamFigures
from ordercast.web.threads import in_thread
from ordercast.web.witness_picture import STYLE as WITNESS

_DIAGRAMS = Response(DIAGRAM + FOREST + EPOCHS + WITNESS, media_type="text/css")
MOST_ROWS = 1_000_000


class Papers(Protocol):
    """The papers and their reproductions, where the page gets them from."""

    def listed(self) -> dict[str, Any]:
        """All of them, for the page as JSON."""

    def figure(self, name: str) -> Path:
        """The file of a figure. Raises ConfigError if there is no such figure."""


@dataclass
class Dashboard:
    """What a server shows. `subject`: what it was started with, for people."""

    subject: str
    access: Access
    parse_line: ParseLine
    runs: Runs = field(default_factory=Runs)
    sampler: Sampler | None = None  # None: there is no cluster to show
    collect: Callable[[], History] | None = None  # the stores of the cluster as a history
    controls: Controls | None = None  # None: the page only looks
    groups: str = ""  # the groups of the subject, for the planner
    papers: Papers | None = None  # None: the page shows no papers
    figures: StreamFigures | None = None  # of 'ordercast audit --follow --figures'
    making: PendingRun | None = None  # the run of the subject, which comes later
    busy: asyncio.Lock = field(default_factory=asyncio.Lock)  # one computation at a time

    def shown(self) -> list[str]:
        first, last = ["cluster"] if self.sampler else [], ["papers"] if self.papers else []
        return [*first, "replay", "witness", "planner", *last]


def make_app(dashboard: Dashboard) -> Starlette:
    routes: list[BaseRoute] = [
        Route("/", _first(dashboard)),
        Route("/login", _page(dashboard, "login")),
        Route("/api/login", _login(dashboard), methods=["POST"]),
        *(Route(f"/{name}", _page(dashboard, name)) for name in dashboard.shown()),
        Route("/static/diagram.css", _style),
        Mount("/static", StaticFiles(directory=str(files("ordercast.web") / "static"))),
        *_replay_routes(dashboard),
        *_planner_routes(dashboard),
        *_papers_routes(dashboard),
        *_cluster_routes(dashboard),
    ]
    if dashboard.controls is not None and not dashboard.access.token:
        raise ValueError("controls need a token")
    guard = Middleware(PageGuard, access=dashboard.access)
    return Starlette(routes=routes, middleware=[guard], lifespan=_lifespan(dashboard))


def _cluster_routes(dashboard: Dashboard) -> list[BaseRoute]:
    if dashboard.sampler is None:
        return []
    return cluster_routes(dashboard.sampler, dashboard.controls, dashboard.figures)


def _lifespan(dashboard: Dashboard) -> Callable[[Starlette], Any]:
    """The sampler runs as long as the server does; the run of the subject is made meanwhile."""

    @asynccontextmanager
    async def life(_app: Starlette) -> AsyncIterator[None]:
        sampler, making = dashboard.sampler, dashboard.making
        tasks = []
        if sampler is not None:
            tasks.append(asyncio.create_task(sampler.run()))
            if making is not None:
                tasks.append(asyncio.create_task(making.make(dashboard.runs, sampler)))
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()

    return life


# --- pages ----------------------------------------------------------------------------------------


def _first(dashboard: Dashboard) -> Handler:
    async def handler(_request: Request) -> Response:
        return RedirectResponse(f"/{dashboard.shown()[0]}", status_code=303)

    return handler


def _page(dashboard: Dashboard, name: str) -> Handler:
    async def handler(_request: Request) -> Response:
        shown = [] if name == "login" else dashboard.shown()
        subject = "" if name == "login" else dashboard.subject
        return HTMLResponse(pages.page(name, subject=subject, shown=shown))

    return handler


async def _style(_request: Request) -> Response:
    return _DIAGRAMS


def _login(dashboard: Dashboard) -> Handler:
    @answers
    async def handler(request: Request) -> Response:
        access = dashboard.access
        if not access.is_token(text_of(await body_of(request), "token")):
            await asyncio.sleep(0.3)  # guessing is slow
            return JSONResponse({"error": "that is not the token"}, status_code=401)
        response = JSONResponse({"ok": True})
        response.set_cookie(
            COOKIE,
            access.cookie(),
            httponly=True,
            samesite="strict",
            secure=access.secure,
            path="/",
        )
        return response

    return handler


# --- replay ---------------------------------------------------------------------------------------


def _replay_routes(dashboard: Dashboard) -> list[BaseRoute]:
    def about(answer: Callable[[Trace, Mapping[str, str]], dict[str, Any]]) -> Handler:
        @answers
        async def handler(request: Request) -> Response:
            trace = dashboard.runs.trace(request.path_params["run"])
            found = await asyncio.to_thread(answer, trace, dict(request.query_params))
            return JSONResponse(found)

        return handler

    @answers
    async def listed(_request: Request) -> Response:
        stores = dashboard.collect is not None
        running = dashboard.making.told if dashboard.making else ""
        return JSONResponse({"runs": dashboard.runs.listed(), "stores": stores, "running": running})

    @answers
    async def begun(request: Request) -> Response:
        """A line is run; without one, the stores of the cluster are read as they are now."""
        body = await body_of(request)
        async with dashboard.busy:
            if body.get("stores") is True and dashboard.collect is not None:
                found = await in_thread(_collected, dashboard.collect, dashboard.subject)
            else:
                config, seed = dashboard.parse_line(text_of(body, "line"))
                found = await in_thread(runs.run_config, runs.bounded(config), seed)
        return JSONResponse({"run": dashboard.runs.add(*found)})

    @answers
    async def witnesses(request: Request) -> Response:
        number = request.path_params["run"]
        trace, history = dashboard.runs.trace(number), dashboard.runs.history(number)
        causal = request.query_params.get("causal") == "1"
        async with dashboard.busy:
            found = await in_thread(runs.witnesses_of, trace, history, causal=causal)
        return JSONResponse(found)

    base = "/api/replay/{run:int}"
    return [
        Route("/api/replay", listed),
        Route("/api/replay", begun, methods=["POST"]),
        Route(base, about(lambda trace, _query: runs.facts_of(trace))),
        Route(f"{base}/picture", about(runs.picture_of)),
        Route(f"{base}/state", about(runs.state_of)),
        Route(f"{base}/forest", about(runs.forest_of)),
        Route(f"{base}/message", about(runs.journey_of)),
        Route(f"{base}/witnesses", witnesses),
    ]


def _collected(collect: Callable[[], History], subject: str) -> tuple[Trace, History]:
    history = collect()
    rows = len(history.deliveries)
    if rows > MOST_ROWS:
        raise ConfigError(
            f"the stores hold {rows:,} deliveries, and a page shows {MOST_ROWS:,} at most:"
            " 'ordercast export' writes them, 'ordercast audit' judges them"
        )
    return trace_of_history(history, f"{subject} at {time.strftime('%H:%M:%S')}"), history


def _planner_routes(dashboard: Dashboard) -> list[BaseRoute]:
    @answers
    async def planned(request: Request) -> Response:
        body = await body_of(request)
        text, objective = text_of(body, "groups"), text_of(body, "objective")
        async with dashboard.busy:
            return JSONResponse(await in_thread(planner.plan_text, text, objective))

    @answers
    async def first(_request: Request) -> Response:
        return JSONResponse({"groups": dashboard.groups or planner.EXAMPLE})

    return [Route("/api/plan", first), Route("/api/plan", planned, methods=["POST"])]


def _papers_routes(dashboard: Dashboard) -> list[BaseRoute]:
    papers = dashboard.papers
    if papers is None:
        return []

    @answers
    async def listed(_request: Request) -> Response:
        async with dashboard.busy:
            return JSONResponse(await in_thread(papers.listed))

    @answers
    async def figure(request: Request) -> Response:
        file = papers.figure(request.path_params["name"])
        return FileResponse(file, media_type="image/png")

    return [Route("/api/papers", listed), Route("/api/papers/{name}.png", figure)]
