"""Which of the connections with a peer counts.

Either site may dial, a connection can be dead at one end only, and a site can be started twice. So
a hello carries three numbers (`number`, `answers`, `gone`) and the start of the process that says
it (`incarnation`, `boot`, `instance`):

- A start that is earlier than a known one is refused. A later one replaces the connection of the
  earlier one. Of two processes of the same start, the connected one stays.
- A site dials once at a time, so a later dial means that its earlier one has ended. A hello whose
  number is not above the last one is a repetition.
- When both sites have dialled there are two good connections. The one that was dialled by the site
  whose name sorts first is kept. The other is read for a while and then closed, so that nothing
  under way is lost.
- `gone` tells the last two cases apart: it says that the speaker has seen our connection end, even
  if we have not. A site that asks for a pipe says this of a silent direct connection.
- A direct connection is better than a pipe. If there is one of each, the pipe is closed. If the
  peer dialled the direct one, the pipe is closed when a ping shows that the peer has our answer: a
  link may be broken in one direction.

A guest is a site that was in this cluster and dials again: it must hear that it is retired. It may
only tell how much it knows, and is forgotten when its connection ends. A newcomer knows only the
sites of its cluster file, so it listens to every site that comes: the manager may be a site that
was added.
"""

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ordercast.model.groups import Site
from ordercast.model.options import SECOND
from ordercast.net.link.complaints import LinkTrouble
from ordercast.net.link.connection import SILENT, Connection, LinkLimits, LinkTimes
from ordercast.net.link.hello import UNKNOWN_SITE, Hello

OLDER_START: Final = "an earlier start of the site"
TWICE: Final = "two processes of one site"
OLD_HELLO: Final = "an old hello again"

ABANDONED_MOST: Final = 60 * SECOND  # longest pause between dials if connections do not last

KEPT = "kept"  # it is the only one
REPLACED = "replaced"  # in place of one that has ended at the other side
RESTARTED = "restarted"  # in place of one of an earlier start
SECOND_KEPT = "second kept"
SECOND_RETIRED = "second retired"
SECOND_WAITS = "second waits"  # until a ping comes


class Unneeded(Exception):
    """A second connection that neither site needs. It is closed without a complaint."""


@dataclass(frozen=True, slots=True)
class LinkStatus:
    """The state of one link, for operators. Counts are over all connections since the start."""

    peer: Site
    state: str  # connected, dialling, waiting (to dial again) or idle (nothing was sent so far)
    address: str
    since_s: float  # how long it has been in this state
    heard_s: float | None  # how long nothing has been heard, while connected
    connections: int
    bytes_in: int
    bytes_out: int
    frames_in: int
    frames_out: int
    waiting_bytes: int  # to be written
    last_error: str
    mistakes: int = 0  # how often the peer broke a rule and was dropped
    through: Site = ""  # the site that relays the connection; empty where it is direct
    wire: int = 0  # the version of the wire format, while connected
    program: str = ""  # the version of the peer's program, as it said last
    door: str = ""  # where the peer listens for clients, as it said last


class Peer:
    def __init__(
        self, name: Site, us: Site, times: LinkTimes, terms: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self._us = us
        self._times = times
        self.current: Connection | None = None
        self.retired: list[Connection] = []  # they are read until they end
        self.waits: Connection | None = None  # a direct one beside a pipe, until its ping comes
        self.barred = ""  # why this site does not dial it; it may dial this site
        self.guest = False  # it is on no roster known here: a peer only while connected
        self.dialling = False
        self.wanted = False  # it is dialled again when the connection is lost
        self.failures = 0  # failed dials in a row
        self.gone = 0  # as in `Hello`
        self._instance = b""
        self._newest = (0, 0)  # incarnation and boot
        # Under `exclude` a site may come back without its store: the voters decide about it.
        self.anew = (terms or {}).get("policy") == "exclude"
        # Numbers of the last hellos on connections that the peer dialled: directly, and by pipe.
        self._last_dials = {False: 0, True: 0}
        self.lost_at = 0.0  # since when there is no connection, or since when one is wanted
        self.abandoned = 0  # direct connections that did not last, so that a pipe replaced them
        self.congested = False  # as the driver was told
        self.settled = False  # the current connection has lasted
        self.since = 0.0
        self.connections = 0
        self.last_error = ""
        self.mistakes = 0
        self.program = ""  # the version of its program, as its last hello said
        self.door = ""  # where it listens for clients, as its last hello said
        self._before = [0, 0, 0, 0]  # bytes and frames, in and out, of ended connections

    # --- which connection counts ------------------------------------------------------------------

    def meet(self, connection: Connection, hello: Hello) -> str:
        """The role of a connection from now on, by its hello. The hello was checked before."""
        start = (hello.incarnation, hello.boot)
        self.program, self.door = hello.program, hello.door
        if self.anew and self.current is None and hello.instance != self._instance:
            self._newest = (0, 0)
        if start < self._newest:
            raise LinkTrouble(
                OLDER_START, f"boot {hello.boot}, while boot {self._newest[1]} has been here"
            )
        if hello.answers != connection.our_number:  # `our_number` is 0 if the peer dialled
            raise LinkTrouble(OLD_HELLO, "it answers another one than ours")
        if hello.instance != self._instance:
            if self._instance and start == self._newest and start != (0, 0):
                # A store counts its starts, so this process has no store, or a copy. The other
                # sites rely on what the first process has: letting this one go on would lose
                # messages.
                raise LinkTrouble(
                    TWICE,
                    f"both with boot {hello.boot}; a site does not come back without its own"
                    " store while the others run",
                )
            self._instance, self._newest = hello.instance, start
            self._last_dials = {False: 0, True: 0}
            self.gone = 0
            role = KEPT if self.current is None else RESTARTED
        else:
            last = self._last_dials[connection.through != ""]
            if connection.dialled is None and hello.number <= last:
                raise LinkTrouble(OLD_HELLO, f"number {hello.number} after {last}")
            role = self._role_of_second(connection, hello)
        if connection.dialled is None:
            self._last_dials[connection.through != ""] = hello.number
        return role

    def _role_of_second(self, connection: Connection, hello: Hello) -> str:
        there = self.current
        if there is None:
            return KEPT
        if hello.gone >= there.our_number:
            return REPLACED
        if bool(there.through) != bool(connection.through):
            return self._role_beside_pipe(connection)
        if there.dialled == connection.dialled:
            return REPLACED
        dialler = self.name if connection.dialled is None else self._us
        if dialler == min(self.name, self._us):
            return SECOND_KEPT
        if connection.dialled is None:
            raise Unneeded  # our own dial is already answered
        return SECOND_RETIRED

    def _role_beside_pipe(self, connection: Connection) -> str:
        """A direct connection and a pipe are both good: the direct one is kept."""
        if not connection.through:
            return SECOND_WAITS if connection.dialled is None else SECOND_KEPT
        if connection.dialled is None:
            raise Unneeded
        return SECOND_RETIRED

    def prefers(self, connection: Connection) -> bool:
        """Whether a direct connection that has waited is better than the current one."""
        dialler = self.name if connection.dialled is None else self._us
        return self.direct is None or dialler == min(self.name, self._us)

    @property
    def direct(self) -> Connection | None:
        """The current connection, unless it goes through another site."""
        there = self.current
        return None if there is None or there.through or there.over else there

    def silence(self, now: float) -> float:
        """Seconds without a sign of life."""
        return now - (self.lost_at if self.current is None else self.current.heard_at)

    def up(self, now: float) -> None:
        """There is a connection again."""
        self.connections += 1
        self.settled = False
        self.since = now

    def down(self, now: float) -> list[Connection]:
        """There is no connection any more. Returns those that there were, the current one first."""
        assert self.current is not None
        there = [self.current, *self.retired]
        self.gone = max(self.gone, *(each.their_number for each in there))
        self.failures = 0 if self.current.frames_in else self.failures + 1
        self.current, self.retired = None, []
        self.since = self.lost_at = now
        return there

    # --- dialling again -------------------------------------------------------------------------

    def pause(self) -> float:
        """Seconds before the next dial. The pause doubles, and is drawn at random. It is a little
        shorter at the site whose name sorts first, so that both seldom dial at once."""
        times = self._times
        most = min(times.redial_least << min(self.failures, 16), times.redial_most)
        if self.abandoned > 1:  # connections are made, and then carry nothing
            most = min(times.redial_most << min(self.abandoned - 1, 16), ABANDONED_MOST)
        wait = most * random.uniform(0.5, 1.0)
        if self._us > self.name:
            wait += times.redial_least
        return wait / SECOND

    def watch(self, now: float, boot: int, *, slept: bool) -> bool:
        """Send a sign of life if we are silent, and end a connection whose peer is silent. Returns
        True once, when a direct connection has lasted."""
        connection, suspect = self.current, self._times.suspect / SECOND
        if slept:
            self.lost_at = now
        if connection is None:
            return False
        if slept:
            connection.heard_at = now
        elif now - connection.heard_at > 3 * suspect:
            connection.fail(LinkTrouble(SILENT, f"nothing heard for {3 * suspect:g} s"))
        elif now - connection.wrote_at > suspect / 6 and not connection.waiting:
            connection.ping(boot)
        if self.settled or connection.through or now - self.since <= 3 * suspect:
            return False
        self.settled, self.abandoned = True, 0
        return True

    # --- counting ---------------------------------------------------------------------------------

    def count(self, connection: Connection) -> None:
        """Keep the counts of a connection that has ended."""
        for place, value in enumerate(_counts(connection)):
            self._before[place] += value

    def status(self, now: float, address: tuple[str, int] | None) -> LinkStatus:
        there = [each for each in (self.current, *self.retired) if each is not None]
        columns = zip(self._before, *map(_counts, there), strict=True)
        bytes_in, bytes_out, frames_in, frames_out = (sum(column) for column in columns)
        current = self.current
        return LinkStatus(
            peer=self.name,
            state=self._state(),
            address="" if address is None else f"{address[0]}:{address[1]}",
            since_s=round(now - self.since, 3),
            heard_s=None if current is None else round(now - current.heard_at, 3),
            connections=self.connections,
            bytes_in=bytes_in,
            bytes_out=bytes_out,
            frames_in=frames_in,
            frames_out=frames_out,
            waiting_bytes=0 if current is None else current.waiting,
            last_error=self.last_error,
            mistakes=self.mistakes,
            through="" if current is None else current.through,
            wire=0 if current is None else current.version,
            program=self.program,
            door=self.door,
        )

    def _state(self) -> str:
        if self.current is not None:
            return "connected"
        if self.dialling:
            return "dialling"
        return "waiting" if self.wanted else "idle"


def _counts(connection: Connection) -> list[int]:
    return [
        connection.bytes_in, connection.bytes_out, connection.frames_in, connection.frames_out
    ]  # fmt: skip


class Peers(dict[Site, Peer]):
    """The peers by name, and guests while they are connected."""

    def __init__(
        self, us: Site, names: Iterable[Site], times: LinkTimes, terms: Mapping[str, str]
    ) -> None:
        self._us, self._times, self._terms = us, times, dict(terms)
        super().__init__((name, self._made(name)) for name in names if name != us)

    def _made(self, name: Site) -> Peer:
        return Peer(name, self._us, self._times, self._terms)

    def add(self, name: Site) -> Peer:
        return self.setdefault(name, self._made(name))

    def guest(self, name: Site, limits: LinkLimits) -> Peer:
        """A new guest. Raises LinkTrouble if there are too many. The caller adds it to the peers
        when it is admitted."""
        there = sum(peer.guest for peer in self.values())
        if there >= limits.guests:
            raise LinkTrouble(
                UNKNOWN_SITE, f"{name!r} is no longer of this cluster, as {there} others"
            )
        peer = self._made(name)
        peer.guest, peer.barred = True, "a guest"
        return peer

    def links(self, now: float, addresses: Mapping[Site, tuple[str, int]]) -> list[LinkStatus]:
        met = [peer for _, peer in sorted(self.items()) if not peer.guest]
        return [peer.status(now, addresses.get(peer.name)) for peer in met]
