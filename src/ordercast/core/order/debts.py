"""What a site of the swap family owes its peers until they have it: requests, headers, answers.

Requests to a peer are numbered, and the numbers go on through restarts, so a repeat is recognised.
A site that restarts sends again what was not acknowledged. When a peer restarts, the links do that.
"""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from ordercast.core.order.bodies import name_of
from ordercast.core.order.chain import Header
from ordercast.core.order.direct import Mine
from ordercast.core.order.interface import Environment
from ordercast.core.order.kept_states import DebtsState
from ordercast.model.groups import Site
from ordercast.model.messages import Batch
from ordercast.wire.frames import DOWN, UP, Final, Item
from ordercast.wire.swap import ChainMark, Count, Counted, CountValue, Follows, MarkValue, Swap
from ordercast.wire.tom import MessageName

Request = Swap | Count | CountValue | ChainMark | MarkValue
REQUESTS = (Swap, Count, CountValue, ChainMark, MarkValue)


def without_body(header: Header) -> Header:
    return replace(header, batch=replace(header.batch, body=b""))


class Debts:
    """State: per peer, the last number said and the last number got; what is owed. While `silent`
    (the records are being replayed) nothing is sent."""

    def __init__(self, environment: Environment) -> None:
        self.silent = False
        self._environment = environment
        self._said: dict[Site, int] = {}
        self._got: dict[Site, int] = {}
        self._requests: dict[Site, dict[int, Request]] = {}
        self._headers: dict[MessageName, tuple[Header, dict[Site, None]]] = {}
        self._answers: dict[tuple[Site, Mine], Final] = {}

    # --- telling ----------------------------------------------------------------------------------

    def say(self, peer: Site, request: Request) -> None:
        number = self._said[peer] = self._said.get(peer, 0) + 1
        request = self._requests.setdefault(peer, {})[number] = replace(request, number=number)
        if not self.silent:
            self._environment.send(peer, UP, request)

    def owe(self, header: Header, peers: Sequence[Site], members: Sequence[Site]) -> None:
        """Send the header to these peers, to members with the body. Links repeat it for a peer that
        has restarted; so it is kept only where this site itself may restart in the epoch."""
        if self._environment.resumes:
            self._headers[name_of(header.batch)] = (header, dict.fromkeys(peers))
        if not self.silent:
            self._spread(header, peers, members)

    def _spread(self, header: Header, peers: Sequence[Site], members: Sequence[Site]) -> None:
        slim, with_body = without_body(header), dict.fromkeys(members)
        for peer in peers:
            self._environment.send(peer, UP, header if peer in with_body else slim)

    def answer(self, origin: Site, final: Final) -> None:
        self._answers[origin, (final.incarnation, final.group, final.seq)] = final
        if not self.silent:
            self._environment.send(origin, DOWN, final)

    # --- what peers have --------------------------------------------------------------------------

    def is_news(self, peer: Site, number: int) -> bool:
        """Whether a request is no repeat."""
        if self.has_heard(peer, number):
            return False
        self._got[peer] = number
        return True

    def has_heard(self, peer: Site, number: int) -> bool:
        return number <= self._got.get(peer, 0)

    def acknowledged(self, peer: Site, item: Item) -> None:
        if isinstance(item, (Follows, Counted)):
            name = name_of(item.batch)
            if name in self._headers:
                owed = self._headers[name][1]
                owed.pop(peer, None)
                if not owed:
                    del self._headers[name]
        elif isinstance(item, REQUESTS):
            self._requests.get(peer, {}).pop(item.number, None)
        elif isinstance(item, Final):
            self._answers.pop((peer, (item.incarnation, item.group, item.seq)), None)

    def unheard(self) -> list[Site]:
        """The peers that have not acknowledged a request."""
        return [peer for peer, requests in self._requests.items() if requests]

    # --- what survives a restart ------------------------------------------------------------------

    def tell_again(
        self, whole: Callable[[Batch], Batch], members: Callable[[Batch], Sequence[Site]]
    ) -> None:
        self.silent = False
        for peer, requests in self._requests.items():
            for number, request in list(requests.items()):
                if isinstance(request, Swap):
                    request = requests[number] = replace(request, batch=whole(request.batch))
                    if not request.batch.body:  # an own batch that is final: this was heard
                        del requests[number]
                        continue
                self._environment.send(peer, UP, request)
        for header, owed in self._headers.values():
            header, inside = replace(header, batch=whole(header.batch)), members(header.batch)
            if header.batch.body:
                self._spread(header, list(owed), inside)
            else:  # an own batch that is final: its members have it
                self._spread(header, [peer for peer in owed if peer not in inside], ())
        for (origin, _), final in self._answers.items():
            self._environment.send(origin, DOWN, final)

    def state(self, kept: Callable[[Batch], Batch]) -> DebtsState:
        """`kept` takes the body off an own batch: the site keeps own bodies elsewhere."""
        return DebtsState(
            said=dict(self._said),
            got=dict(self._got),
            requests=tuple(
                (peer, replace(r, batch=kept(r.batch)) if isinstance(r, Swap) else r)
                for peer, requests in self._requests.items()
                for r in requests.values()
            ),
            headers=tuple(
                (replace(header, batch=kept(header.batch)), tuple(owed))
                for header, owed in self._headers.values()
            ),
            answers=tuple((origin, final) for (origin, _), final in self._answers.items()),
        )

    def load(self, state: DebtsState) -> None:
        self._said, self._got = dict(state.said), dict(state.got)
        for peer, request in state.requests:
            self._requests.setdefault(peer, {})[request.number] = request
        for header, owed in state.headers:
            self._headers[name_of(header.batch)] = (header, dict.fromkeys(owed))
        for origin, final in state.answers:
            self._answers[origin, (final.incarnation, final.group, final.seq)] = final
