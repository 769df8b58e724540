"""Requests to a running cluster: for a site's status, or for a change, and through which site.

A change is done (0), not done in time (1, with what it waits for), or refused (2, in one line).
"""

import argparse
import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ordercast.cli.command import GOOD, INCOMPLETE, complain, print_json
from ordercast.cli.runtime import elsewhere
from ordercast.model.errors import ConfigError, Error, NotGranted
from ordercast.net.client.destinations import ANSWER_S, Destination, RemoteDestination

if TYPE_CHECKING:
    from ordercast.model.epochs import Edit
    from ordercast.net.client.client import Client
    from ordercast.net.cluster.config import Cluster

PATIENCE_S = 30.0


def request_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--via", metavar="SITE", help="ask this running site (default: one that answers here)"
    )
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=PATIENCE_S,
        metavar="SECONDS",
        help=f"how long to wait for it (default: {PATIENCE_S:g})",
    )


def seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return value


def site_to_ask(place: Destination, via: str | None) -> str:
    """The site named, which must run, else one whose daemon answers; elsewhere "": whichever."""
    if isinstance(place, RemoteDestination):
        return via or ""
    cluster, directory = place.cluster, place.directory
    from ordercast.net.cluster.processes import require_site
    from ordercast.net.cluster.sockets import answers

    if via is None:
        return any_site(cluster, directory)
    require_site(cluster, via, directory)
    if not answers(directory / f"{via}.sock"):
        told = elsewhere(cluster, directory)
        raise ConfigError(f"--via: site {via!r} does not run from {directory}{told}")
    return via


def any_site(cluster: "Cluster", directory: Path, prefer: Sequence[str] = ()) -> str:
    """A site that runs here, a preferred one if there is one."""
    found = site_that_answers(cluster, directory, prefer)
    if found is None:
        raise ConfigError(
            f"{directory}: no site of cluster {cluster.name!r} runs here"
            + (
                elsewhere(cluster, directory)
                or f"; start one: 'ordercast cluster up {cluster.source} --detach'"
            )
        )
    return found


def site_that_answers(
    cluster: "Cluster", directory: Path, prefer: Sequence[str] = ()
) -> str | None:
    from ordercast.net.cluster.processes import is_retired, sites_here
    from ordercast.net.cluster.sockets import answers

    sites = dict.fromkeys([*sorted(prefer), *sites_here(cluster, directory)])
    for site in sorted(sites, key=lambda site: is_retired(directory, site)):
        if answers(directory / f"{site}.sock"):
            return site
    return None


async def status_of(place: Destination, site: str) -> dict[str, Any]:
    """A site's status and, as `sites`, the roster it knows. Raises TimeoutError, which says
    who does not answer."""
    async with client_that_answers(place, site) as client:
        return {**await client.status(), "sites": list(client.sites)}


@asynccontextmanager
async def client_that_answers(place: Destination, site: str) -> AsyncIterator["Client"]:
    """For a question that is answered at once. Raises TimeoutError, which says who does not."""
    try:
        async with (
            asyncio.timeout(ANSWER_S),
            place.client(site, start_s=ANSWER_S, flush_s=0.1) as client,
        ):
            yield client
    except TimeoutError:
        who = f"site {site}" if site else "a daemon"
        raise TimeoutError(f"{place.source}: no answer of {who} within {ANSWER_S:g} s") from None


async def with_managers_view(place: Destination, status: dict[str, Any]) -> dict[str, Any]:
    """The status with the manager's own knowledge: the sites that have not closed an epoch, the
    suspected sites, and the sites that do not hear each other. Unchanged where the manager runs
    elsewhere."""
    manager = status["manager"]
    if manager is None or manager == status["site"]:
        return status
    try:
        view = await status_of(place, manager)
    except (Error, TimeoutError):
        return status
    known = {change["change"]: change["waits_for"] for change in view["changes"]}
    changes = [
        {**change, "waits_for": known.get(change["change"], change["waits_for"])}
        for change in status["changes"]
    ]
    heard = {name: view[name] for name in ("suspects", "apart")}
    return {**status, "changes": changes, **heard}


# --- a change -------------------------------------------------------------------------------------


@dataclass
class _Outcome:
    done: bool = False
    via: str = ""
    manager: str | None = None
    epochs: list[int] = field(default_factory=list)
    waits_for: list[str] = field(default_factory=list)
    why: str = ""


def request_change(args: argparse.Namespace, place: Destination, edits: Sequence["Edit"]) -> int:
    """Ask for one change of all the edits, wait for it, and print its outcome."""
    from ordercast.net.site.changes import new_change_name
    from ordercast.net.site.layout_view import edit_told

    via = site_to_ask(place, args.via)
    name = new_change_name()
    begun = time.monotonic()
    outcome = asyncio.run(_request(place, via, args.timeout, name, edits))
    took = time.monotonic() - begun
    words = [edit_told(edit) for edit in edits]
    if args.json:
        print_json(
            {
                "cluster": place.name,
                "change": name,
                "edits": words,
                "via": outcome.via or via,
                "done": outcome.done,
                "manager": outcome.manager,
                "epochs": outcome.epochs,
                "waits_for": outcome.waits_for,
                "why": outcome.why,
                "seconds": round(took, 6),
            }
        )
    elif outcome.done:
        print(f"done in {took:.3f} s: {'; '.join(words)}")
    if not outcome.done:
        complain(
            f"not done after {took:.1f} s: {outcome.why}; it may still be done:"
            f" 'ordercast epoch {place.source}'"
        )
    return GOOD if outcome.done else INCOMPLETE


async def _request(
    place: Destination,
    via: str,
    patience_s: float,
    name: str,
    edits: Sequence["Edit"],
) -> _Outcome:
    outcome = _Outcome()
    try:
        async with place.client(
            via, start_s=patience_s, patience_s=patience_s, flush_s=0.1
        ) as client:
            outcome.via = client.site
            try:
                async with asyncio.timeout(patience_s):
                    await client.change(*edits, name=name)
                outcome.done = True
            except TimeoutError:
                await _find_out(outcome, client, place, name)
            else:
                with suppress(Error, TimeoutError):  # the change may have taken its own grants away
                    async with asyncio.timeout(ANSWER_S):
                        status = await client.status()
                    outcome.manager = status["manager"]
                    outcome.epochs = [epoch["epoch"] for epoch in status["epochs"]]
    except (ConfigError, NotGranted):
        raise
    except (Error, TimeoutError) as error:
        outcome.why = str(error) or f"site {via} does not answer"
    return outcome


async def _find_out(outcome: _Outcome, client: "Client", place: Destination, name: str) -> None:
    """Say what a change waits for, as far as this machine can know it."""
    async with asyncio.timeout(ANSWER_S):
        status = await client.status()
    status = await with_managers_view(place, status)
    outcome.manager = manager = status["manager"]
    outcome.epochs = [epoch["epoch"] for epoch in status["epochs"]]
    under_way = {change["change"]: change for change in status["changes"]}
    mine = under_way.get(name)
    if mine is not None:
        closes = "epochs" if len(mine["closes"]) > 1 else "epoch"
        numbers = ", ".join(map(str, mine["closes"]))
        outcome.waits_for = mine["waits_for"] or []
        who = ", ".join(outcome.waits_for) or f"sites that the manager ({manager}) knows"
        outcome.why = f"{closes} {numbers} must be closed by {who}" if numbers else "it has begun"
    elif under_way:
        others = "; ".join(", ".join(change["edits"]) for change in under_way.values())
        outcome.why = f"another change is under way ({others})"
    else:
        voters = ", ".join(status["voters"])
        outcome.why = f"no manager has taken it: a majority of the voters ({voters}) must run"
