"""`ordercast send CLUSTER GROUP TEXT`: send through a running site, and wait for receipts."""

import argparse
import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ordercast.cli.command import (
    GOOD,
    INCOMPLETE,
    MISSING,
    UsageError,
    complain,
    one_of,
    print_json,
    whole_number,
)
from ordercast.cli.destination import destination, first_word_is_cluster, place_arguments
from ordercast.cli.input_lines import input_lines
from ordercast.cli.progress_line import ProgressLine
from ordercast.cli.requests import any_site, seconds, site_that_answers
from ordercast.model.errors import ConfigError, Error, Expired, NotGranted, UnknownGroup
from ordercast.model.headers import header_items
from ordercast.model.messages import STAGES
from ordercast.model.names import nearest
from ordercast.model.time_left import time_left
from ordercast.net.client.destinations import ANSWER_S, Destination, LocalDestination

if TYPE_CHECKING:
    from ordercast.net.client.client import Client
    from ordercast.net.client.requests import ClientReceipt
    from ordercast.net.cluster.config import Cluster

PROGRESS_S = 1.0
COUNTED = 4_096  # receipts held before those that are done are let go

DESCRIPTION = """\
Send messages to a group through a running site of the cluster. GROUP may be several,
joined by commas: then each of their members gets every message once. TEXT is one
message; - sends each line of standard input. The exit code is 0 only when all
messages have reached what --until says."""

EXAMPLE = """\
example:
  ordercast send cluster.toml alpha 'hello, all'
  ordercast send cluster.toml alpha,beta 'hello' --header colour=red
  ordercast send cluster.toml alpha 'paid 12.50' --id order-17
  ordercast send cluster.toml alpha --size 100 --count 10000 --until stable
  seq 10 | ordercast send cluster.toml alpha -"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words",
        metavar="CLUSTER GROUP [TEXT]",
        nargs="+",
        help="the cluster file; the group, or groups joined by commas; the message, or - for lines"
        " of input",
    )
    place_arguments(parser)
    parser.add_argument(
        "--from", dest="origin", metavar="SITE", help="through this site (default: one that runs)"
    )
    parser.add_argument(
        "--count", type=whole_number(1), metavar="N", help="so many messages (default: 1)"
    )
    parser.add_argument(
        "--size", type=whole_number(0), metavar="BYTES", help="made-up messages of this size"
    )
    parser.add_argument(
        "--header",
        dest="headers",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a header of each message; may be given several times",
    )
    parser.add_argument(
        "--id",
        metavar="ID",
        help="of messages that we send with this id to the group one is delivered, as long as the"
        " group remembers it; waits until it is stable",
    )
    parser.add_argument(
        "--since",
        type=whole_number(1),
        metavar="MARK",
        help="with --id: the mark of the first try, as it was told then: however late this one is,"
        " it is not delivered twice",
    )
    parser.add_argument(
        "--until",
        type=one_of(*STAGES),
        default="ordered",
        metavar="STAGE",
        help="wait until accepted, ordered or stable (default: ordered)",
    )
    parser.add_argument(
        "--timeout", type=seconds, metavar="SECONDS", help="give up after so long (default: never)"
    )


def _words(args: argparse.Namespace) -> str | None:
    """The group and the text, as arguments of their own. Returns the cluster file, if one is
    named."""
    words = list(args.words)
    file = words.pop(0) if first_word_is_cluster(words, args) else None
    if not words or len(words) > 2:
        what = f"one argument too many: {words[2]!r}" if words else f"{MISSING} GROUP"
        raise UsageError(f"{what}; see 'ordercast send --help'")
    args.group, args.text = words[0], words[1] if len(words) == 2 else None
    return file


def run(args: argparse.Namespace) -> int:
    file = _words(args)
    if args.text is None and args.size is None:
        raise UsageError("nothing to send: give TEXT, - or --size; see 'ordercast send --help'")
    if args.text is not None and args.size is not None:
        raise UsageError("TEXT and --size contradict each other; see 'ordercast send --help'")
    if args.text == "-" and args.count is not None:
        raise UsageError("--count does not go with -; see 'ordercast send --help'")
    if args.since is not None and args.id is None:
        raise UsageError("--since goes with --id; see 'ordercast send --help'")
    if args.id is not None:
        if args.text == "-" or (args.count or 1) > 1:
            raise UsageError("--id is of one message; see 'ordercast send --help'")
        args.until = "stable"
    headers = _headers(args.headers)
    place = destination(args, file, "send")
    groups = args.group.split(",")
    origin = args.origin or ""
    if isinstance(place, LocalDestination):
        most = place.cluster.limits.message_bytes
        if args.size is not None and args.size > most:
            raise ConfigError(f"--size: {args.size:,} is above {most:,} bytes")
        origin = _origin(args, place.cluster, place.directory, groups)
    sending = _Sending(args, groups[0] if len(groups) == 1 else groups, origin, headers)
    return asyncio.run(sending.run(place))


def _headers(given: list[str]) -> dict[str, bytes]:
    """Raises ConfigError if they are no headers, and TooLarge beyond the limits."""
    found: dict[str, bytes] = {}
    for word in given:
        name, equals, value = word.partition("=")
        if not equals:
            raise ConfigError(f"--header: {word!r} is not NAME=VALUE")
        if name in found:
            raise ConfigError(f"--header: {name!r} is given twice")
        found[name] = value.encode("utf-8", "surrogateescape")
    header_items(found)
    return found


def _origin(
    args: argparse.Namespace, cluster: "Cluster", directory: Path, groups: list[str]
) -> str:
    """The site asked for, else a member of the group if one runs here, else any: groups are open.
    Which groups there are the running cluster knows; before that, the file."""
    from ordercast.net.cluster.processes import require_site

    if args.origin is not None:
        require_site(cluster, args.origin, directory)
        return str(args.origin)
    members = [site for group in groups for site in cluster.groups.get(group, ())]
    if site_that_answers(cluster, directory) is None:
        for group in groups:
            if group not in cluster.groups:
                hint = nearest(group, cluster.groups)
                raise ConfigError(f"{cluster.source}: there is no group {group!r}{hint}")
    return any_site(cluster, directory, members)


class _Sending:
    def __init__(
        self,
        args: argparse.Namespace,
        group: str | list[str],
        origin: str,
        headers: dict[str, bytes],
    ) -> None:
        self.args = args
        self.group = group
        self.headers = headers
        self.origin = origin
        self.since: int | None = args.since  # of a message with an id
        self.sent = 0
        self.reached = 0
        self.last: ClientReceipt | None = None
        self.error = ""
        self.is_late = False  # it is of no use to try again
        self._receipts: deque[ClientReceipt] = deque()  # of those that are not there yet

    async def run(self, place: Destination) -> int:
        begun = time.monotonic()
        try:
            async with (
                asyncio.timeout(self.args.timeout),
                place.client(self.origin, flush_s=1.0) as client,
            ):
                self.origin = client.site
                await self._send_all(client)
        except TimeoutError:
            why = await self._why_not(place)
            self.error = f"gave up after {self.args.timeout:g} s{why}"
        except (ConfigError, NotGranted):
            raise
        except UnknownGroup as error:
            if not self.sent:
                raise
            self.error = str(error)
        except Error as error:
            self.error = str(error)
            self.is_late = isinstance(error, Expired)
        return self._report(time.monotonic() - begun)

    async def _why_not(self, place: Destination) -> str:
        """What keeps the site from sending, as far as it says."""
        with suppress(Error, TimeoutError):
            async with asyncio.timeout(ANSWER_S), place.client(self.origin, flush_s=0.1) as client:
                status = await client.status()
            return f": {status['why_not']}" if status["why_not"] else ""
        return ""

    async def _send_all(self, client: "Client") -> None:
        lines = ProgressLine(PROGRESS_S)
        telling = asyncio.ensure_future(self._tell_progress(lines))
        try:
            async for payload in _payloads(self.args):
                if self.args.id is not None and self.since is None and isinstance(self.group, str):
                    self.since = await client.id_mark(self.group)
                receipt = await client.multicast(
                    self.group, payload, self.headers, id=self.args.id, since=self.since
                )
                self._receipts.append(receipt)
                self.sent += 1
                if len(self._receipts) % COUNTED == 0:
                    self._count()
            await client.flush(self.args.until)
        finally:
            telling.cancel()
            lines.clear()
            self._count()

    def _count(self) -> None:
        """Receipts of one target are reached in the order of sending."""
        wanted = STAGES.index(self.args.until)
        while self._receipts and self._receipts[0].stage in STAGES[wanted:]:
            self.last = self._receipts.popleft()
            self.reached += 1

    async def _tell_progress(self, lines: ProgressLine) -> None:
        begun, total = time.monotonic(), self.args.count or 0

        def line() -> str:
            rest = time_left(time.monotonic() - begun, self.reached, total)
            return f"{self.sent:,} sent, {self.reached:,} {self.args.until}{rest}"

        while True:
            await asyncio.sleep(PROGRESS_S)
            self._count()
            lines.tell(line)

    def _report(self, seconds: float) -> int:
        until = self.args.until
        complete = not self.error and self.sent == self.reached
        if self.args.json:
            group = self.group if isinstance(self.group, str) else ",".join(self.group)
            print_json(
                {
                    "group": group,
                    "from": self.origin,
                    "until": until,
                    "sent": self.sent,
                    "reached": self.reached,
                    "last_seq": self.last.seq if self.last is not None else 0,
                    "seconds": round(seconds, 6),
                    **({} if self.since is None else {"since": self.since}),
                }
            )
        elif complete:
            print(f"{self.reached:,} {until}, sent from {self.origin} in {seconds:.3f} s")
        if not complete and not self.sent:
            complain(self.error)
        elif not complete:
            missing = self.sent - self.reached
            complain(
                f"{missing:,} of {self.sent:,} messages are not known to be {until}: {self.error}"
                + (
                    ""
                    if self.since is None or self.is_late
                    else f"; to try again, give --since {self.since}"
                )
            )
        return GOOD if complete else INCOMPLETE


async def _payloads(args: argparse.Namespace) -> AsyncIterator[bytes]:
    if args.text == "-":
        async for line in input_lines():
            yield line
        return
    for payload in _made_up(args):
        yield payload


def _made_up(args: argparse.Namespace) -> Iterator[bytes]:
    for number in range(1, (args.count or 1) + 1):
        if args.text is not None:
            yield args.text.encode("utf-8", "surrogateescape")
        else:
            yield (b"%d " % number).ljust(args.size, b".")[: args.size]
