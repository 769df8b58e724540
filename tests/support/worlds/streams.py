"""Sites that multicast to each other over a network that loses, doubles, reorders and replays."""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass

from ordercast.core.dissemination.multicast import Multicast
from ordercast.core.dissemination.settings import StreamLimits, StreamTimes
from ordercast.model.options import MILLISECOND, SECOND
from ordercast.wire.datagrams import Datagram, decode_datagram, encode_datagram, split_header

DELAY = MILLISECOND // 5


@dataclass(frozen=True)
class Weather:
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    replay: float = 0.0  # chance that something sent long ago arrives again


class Streams:
    def __init__(
        self,
        sites: int,
        seed: int = 1,
        weather: Weather | None = None,
        limits: StreamLimits | None = None,
        times: StreamTimes | None = None,
        make: Callable[..., Multicast] = Multicast,
    ) -> None:
        self.rng = random.Random(seed)
        self.weather = weather or Weather()
        self.names = [f"s{n}" for n in range(sites)]
        self.sites = {name: make(name, 100 + n, limits, times) for n, name in enumerate(self.names)}
        for name, site in self.sites.items():
            for n, other in enumerate(self.names):
                if other != name:
                    site.learn(other, 100 + n, 1)
        self.now = 0
        self.sent: dict[str, list[bytes]] = {name: [] for name in self.names}
        self.got: dict[str, dict[str, list[bytes]]] = {
            name: {other: [] for other in self.names if other != name} for name in self.names
        }
        self.dead: list[str] = []
        self.lose: Callable[[str, str, Datagram], bool] = lambda _from, _to, _datagram: False
        self.traffic: list[tuple[str, Datagram]] = []
        self._past: list[bytes] = []
        self._events: list[tuple[int, int, str, bytes]] = []
        self._count = 0

    def multicast(self, origin: str, packet: bytes) -> None:
        self.sent[origin].append(packet)
        self.sites[origin].send(packet)

    def run(self, until: int, done: Callable[[], bool] = lambda: False) -> None:
        """Everything up to a time; or until `done`."""
        while self.now < until and not done():
            alarm = min(self._drain(name) for name in self.names if name not in self.dead)
            if self._events and self._events[0][0] <= alarm:
                alarm = self._events[0][0]
            self.now = max(self.now + 1, min(alarm, until))
            while self._events and self._events[0][0] <= self.now:
                _, _, name, data = heapq.heappop(self._events)
                if name not in self.dead:
                    header = split_header(data)
                    datagram = decode_datagram(header, data[22:])
                    self.sites[name].receive(self.now, datagram)

    def _drain(self, name: str) -> int:
        drained = self.sites[name].drain(self.now)
        for origin, packet in drained.packets:
            self.got[name][origin].append(packet)
        for origin, stream in drained.heard:
            self.sites[origin].answered(self.now, name, stream)
        for datagram in drained.datagrams:
            self.traffic.append((name, datagram))
            self._spread(name, datagram)
        return drained.alarm

    def _spread(self, sender: str, datagram: Datagram) -> None:
        data = b"".join(encode_datagram(datagram))
        self._past.append(data)
        for name in self.names:
            if name == sender or self.lose(sender, name, datagram):
                continue
            if self.rng.random() < self.weather.loss:
                continue
            self._post(name, data)
            if self.rng.random() < self.weather.duplicate:
                self._post(name, data)
            if self.rng.random() < self.weather.replay:
                self._post(name, self.rng.choice(self._past))

    def _post(self, name: str, data: bytes) -> None:
        late = self.rng.randrange(20 * DELAY) if self.rng.random() < self.weather.reorder else 0
        self._count += 1
        heapq.heappush(self._events, (self.now + DELAY + late, self._count, name, data))

    # --- verdicts -------------------------------------------------------------------------------

    def complete(self) -> bool:
        return all(
            packets == self.sent[origin]
            for name, by_origin in self.got.items()
            if name not in self.dead
            for origin, packets in by_origin.items()
        )

    def wrong(self) -> list[str]:
        """Where what was handed up is not, in order and once each, what was sent."""
        found = []
        for name, by_origin in self.got.items():
            for origin, packets in by_origin.items():
                sent = iter(self.sent[origin])
                if not all(any(packet == each for each in sent) for packet in packets):
                    found.append(f"{name} from {origin}")
        return found

    def count(self, what: str) -> int:
        return sum(site.counts[what] for site in self.sites.values())


def campaign(seed: int, make: Callable[..., Multicast] = Multicast) -> Streams:
    """A few sites in bad weather up to 30 % loss, then in good weather; all is there at the end."""
    rng = random.Random(f"streams {seed}")
    weather = Weather(rng.choice([0.0, 0.1, 0.3]), *(rng.choice([0.0, 0.1, 0.3]) for _ in range(3)))
    limits = StreamLimits(piece_bytes=rng.choice([8, 40]), packet_bytes=4_000)
    streams = Streams(rng.randrange(2, 6), seed, weather, limits, make=make)
    for number in range(rng.randrange(5, 60)):
        origin = rng.choice(streams.names)
        packet = b"%s %d " % (origin.encode(), number) + b"x" * rng.choice([0, 0, 5, 30, 200])
        streams.multicast(origin, packet)
        streams.run(streams.now + rng.choice([0, DELAY, MILLISECOND, 5 * MILLISECOND]))
    streams.run(streams.now + 50 * MILLISECOND)
    streams.weather = Weather()
    streams.run(streams.now + 10 * SECOND, streams.complete)
    return streams
