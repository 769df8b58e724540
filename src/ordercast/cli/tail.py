"""`ordercast tail CLUSTER --site a`: a site's deliveries, as they come."""

import argparse
import asyncio
import base64
from bisect import bisect_right
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from ordercast.cli.command import GOOD, MISSING, UsageError, whole_number
from ordercast.cli.destination import destination
from ordercast.cli.runtime import cluster_arguments, print_line, say
from ordercast.model.errors import Forgotten
from ordercast.model.names import nearest
from ordercast.net.client.destinations import Destination, LocalDestination

if TYPE_CHECKING:
    from ordercast.net.client.client import Client

_MOST = 1 << 63

DESCRIPTION = """\
Print the deliveries of a running site in order, and then what comes, until Ctrl-C.
Where an epoch opens, or deliveries are taken back, a line says so (with --json, an
object "opened" or "rollback"); --count does not count those. Headers stand behind the
message, as [NAME=VALUE]. It only looks on: it confirms nothing, and nobody waits for
it. With --times two more columns follow the position: when the message was delivered
(logged at this site, as 'ordercast export' has it) and when it was sent, each by the
clock of its site; - where a time is not kept."""

EXAMPLE = """\
example:
  ordercast tail cluster.toml --site a --start 1
  ordercast tail cluster.toml --site a --group alpha --times
  ordercast tail cluster.toml --site a --count 10 --json"""


def arguments(parser: argparse.ArgumentParser) -> None:
    cluster_arguments(parser, remote=True)
    parser.add_argument(
        "--site", metavar="SITE", help="whose deliveries; with a context: default, any site's"
    )
    parser.add_argument(
        "--start",
        type=whole_number(1),
        metavar="POSITION",
        help="the first position (default: the first that is not confirmed)",
    )
    parser.add_argument(
        "--group",
        action="append",
        metavar="GROUP",
        help="messages of this group only; may be given again",
    )
    parser.add_argument(
        "--count", type=whole_number(1), metavar="N", help="end after so many (default: never)"
    )
    parser.add_argument(
        "--times",
        action="store_true",
        help="show when each message was delivered here and when it was sent (--json always does)",
    )


def run(args: argparse.Namespace) -> int:
    from ordercast.net.cluster.processes import require_site

    place = destination(args, args.cluster, "tail")
    if isinstance(place, LocalDestination):
        if args.site is None:
            raise UsageError(f"{MISSING} --site; see 'ordercast tail --help'")
        require_site(place.cluster, args.site, place.directory)
    asyncio.run(_tail(place, args))
    return GOOD


async def _tail(place: Destination, args: argparse.Namespace) -> None:
    left = args.count
    async with place.client(args.site or "") as client:
        for group in args.group or ():
            if group not in client.groups:  # it may have been there, or come
                say(f"there is no group {group!r} now{nearest(group, client.groups)}")
        times = _Times(client)
        async for item in client.deliveries(args.start, observe=True):
            if args.group and not _is_of(item, args.group):
                continue
            if args.json:
                print_line(_as_json(item, await times.of(item)))
            elif args.times:
                print(_as_text(item, await times.of(item)), flush=True)
            else:
                print(_as_text(item), flush=True)
            if left is not None and not (_is_opening(item) or _is_rollback(item)):
                left -= 1
                if not left:
                    return


class _Times:
    """When messages were delivered. State: the last answer. One answer has many messages; live,
    each message is asked for."""

    def __init__(self, client: "Client") -> None:
        self._client = client
        self._known: list[tuple[int, int, int]] = []

    async def of(self, item: Any) -> int:
        """Nanoseconds since 1970; 0: not known."""
        if _is_rollback(item):
            self._known = []  # its positions are given again
        if _is_opening(item) or _is_rollback(item):
            return 0
        if (found := self._find(item.position)) is None:
            self._known = await self._ask(item.position)
            found = self._find(item.position)
        return found or 0

    def _find(self, position: int) -> int | None:
        place = bisect_right(self._known, (position, _MOST, _MOST)) - 1
        if place < 0:
            return None
        first, count, at_ns = self._known[place]
        return at_ns if position < first + count else None

    async def _ask(self, start: int) -> list[tuple[int, int, int]]:
        try:
            return await self._client.logged_times(start)
        except Forgotten:  # since it was delivered to us
            return []


def _is_of(item: Any, groups: list[str]) -> bool:
    """Whether a message went to one of the groups, alone or among others. Openings and rollbacks
    are of all."""
    if _is_opening(item) or _is_rollback(item):
        return True
    return any(group in groups for group in (item.group, *getattr(item, "groups", ())))


def _is_opening(item: Any) -> bool:
    from ordercast.core.epochs.records import EpochOpened

    return isinstance(item, EpochOpened)


def _is_rollback(item: Any) -> bool:
    from ordercast.core.epochs.log_tail import Rollback

    return isinstance(item, Rollback)


def _as_json(item: Any, delivered_ns: int) -> dict[str, Any]:
    if _is_rollback(item):
        return {"rollback": {**asdict(item), "annulled": [[p, *m] for p, m in item.annulled]}}
    if _is_opening(item):
        return {"opened": {**asdict(item), "members": dict(item.members)}}
    found = {
        "position": item.position,
        "epoch": item.epoch,
        "group": item.group,
        "origin": item.origin,
        "incarnation": item.incarnation,
        "seq": item.seq,
        "delivered_ns": delivered_ns,
    }
    payload = getattr(item, "payload", None)
    if payload is None:
        return {**found, "gap": True}
    found |= {"attempt": item.attempt, "groups": list(item.groups), "sent_ns": item.sent_ns}
    found |= _json_headers(item.headers)
    text = _text(payload)
    if text is not None:
        return {**found, "text": text}
    return {**found, "base64": _base64(payload)}


def _json_headers(headers: dict[str, bytes]) -> dict[str, Any]:
    """The values that are text, and apart from them the other values."""
    texts = {name: _text(value) for name, value in headers.items()}
    found: dict[str, Any] = {
        "headers": {name: text for name, text in texts.items() if text is not None},
        "headers_base64": {
            name: _base64(headers[name]) for name, text in texts.items() if text is None
        },
    }
    return {name: values for name, values in found.items() if values}


def _as_text(item: Any, delivered_ns: int | None = None) -> str:
    if _is_rollback(item):
        count = len(item.annulled)
        which = "1 delivery is" if count == 1 else f"{count:,} deliveries are"
        return f"-\t(rolled back to {item.position}: {which} annulled)"
    if _is_opening(item):
        groups = ", ".join(item.groups) or "none"
        return f"-\t(epoch {item.epoch} opens: {item.protocol}; groups of this site: {groups})"
    payload = getattr(item, "payload", None)
    if payload is None:
        shown = "(gap: this message was shed)"
    else:
        shown = _shown(payload)
        for name, value in item.headers.items():
            shown += f"\t[{name}={_shown(value)}]"
    group = ",".join(getattr(item, "groups", ())) or item.group
    times = ""
    if delivered_ns is not None:
        times = f"{_time(delivered_ns)}\t{_time(getattr(item, 'sent_ns', 0))}\t"
    return f"{item.position}\t{times}{group}\t{item.origin}:{item.seq}\t{shown}"


def _time(at_ns: int) -> str:
    """In UTC, to the microsecond; a clock may say what is no date of ours."""
    if not at_ns:
        return "-"
    try:
        found = datetime.fromtimestamp(at_ns / 1e9, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{at_ns} ns"
    return found.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _shown(value: bytes) -> str:
    text = _text(value)
    return text if text is not None and text.isprintable() else f"base64:{_base64(value)}"


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _text(payload: bytes) -> str | None:
    try:
        return payload.decode("utf-8")
    except UnicodeDecodeError:
        return None
