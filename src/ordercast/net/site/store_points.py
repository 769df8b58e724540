"""What this site knows of the stores of others, and they of its own. So an older copy of a store is
noticed (docs/store.md, "An older copy"), and so is a second cluster that is about to be founded.

A point that a peer has told is written with the next commit. So it is durable with the first rows
that depend on it.
"""

from collections.abc import Callable

from ordercast.model.groups import Site
from ordercast.net.link.hello import INVENTED
from ordercast.net.site.assembly import AnyStore
from ordercast.wire.lineage import Lineage, LineageFrame, StorePoint


class StorePoints:
    """`behind`: the peers that are not listened to, and why: their stores are older than what they
    have said, or they name what this site has never said. `outdated` is called, with one line, when
    a peer shows that this site's own store is older, or that there is a cluster with a past
    already. `founded` tells whether this site's own cluster has a past."""

    def __init__(
        self,
        site: Site,
        store: AnyStore,
        outdated: Callable[[str], None],
        founded: Callable[[], bool],
    ) -> None:
        self.founded = founded
        self.behind: dict[Site, str] = {}
        self._site = site
        self._store = store
        self._outdated = outdated
        self._heard = dict(store.heard)
        self._connected: dict[Site, StorePoint] = {}  # as the peer's last lineage says
        self._news: dict[Site, StorePoint] = {}  # not yet written

    def introduction(self, peer: Site) -> Lineage | None:
        """What to tell a peer first. None: this site's store is no file."""
        store = self._store
        if not store.starts:
            return None
        return Lineage(store.store_number, store.starts, store.row, self._heard.get(peer))

    def take(self, peer: Site, frame: LineageFrame) -> bool:
        """Take what a peer says. Returns whether the peer may be listened to."""
        if isinstance(frame, Lineage):
            return self._meet(peer, frame)
        if peer in self._connected and peer not in self.behind:
            before = self._connected[peer]
            if frame.row > before.row:
                self._note(peer, StorePoint(before.store, before.boot, before.mark, frame.row))
        return peer not in self.behind

    def heard_of(self, peer: Site) -> StorePoint | None:
        """The furthest point of its store that the peer has told."""
        return self._heard.get(peer)

    def told(self, peer: Site, point: StorePoint) -> bool:
        """A peer knows this point of this site's store. Returns whether the store has reached it;
        if not, the site stops."""
        mine = self.introduction(peer)
        if mine is None or mine.has_been_at(point):
            return True
        self._store.keep_disputed(point)
        self._outdated(
            f"{self._store.path}: this store is older than what site {self._site} has said to"
            f" {peer}, which heard of {_named(point)}, and this one has {_named(mine.point)}: an"
            " older copy was put back; put back the newest one, or move"
            f" {self._site}.db* away and start the site as one that lost its store"
        )
        return False

    def is_invented(self, point: StorePoint) -> bool:
        """Whether a peer names more rows of this site's present start than there are. Only this
        process can have told them, and it has not: so the peer is wrong, and not the store."""
        starts = self._store.starts
        if not starts or (point.store, point.boot, point.mark) != (
            self._store.store_number, starts[-1].boot, starts[-1].mark,
        ):  # fmt: skip
            return False
        return point.row > self._store.row

    def other_cluster(self, peer: Site) -> None:
        """A peer is of a cluster with a past, which was founded otherwise than this site would: the
        site stops, rather than found a second cluster."""
        self._outdated(
            f"site {peer} is of a running cluster of this name that was founded with other sites,"
            f" groups, voters, protocol or builder, and site {self._site} has no past: give it the"
            " file of that cluster, or write another name and other addresses"
        )

    def news(self) -> dict[Site, StorePoint]:
        """What was heard and not written yet."""
        news, self._news = self._news, {}
        return news

    def _meet(self, peer: Site, lineage: Lineage) -> bool:
        self.behind.pop(peer, None)
        if lineage.heard is not None:
            if self.is_invented(lineage.heard):
                self.behind[peer] = INVENTED
                return False
            if not self.told(peer, lineage.heard):
                return False
        known = self._heard.get(peer)
        if known is not None and not lineage.has_been_at(known):
            self.behind[peer] = (
                f"its store is older than what it has said: {_named(known)}, and now it has"
                f" {_named(lineage.point)}; an older copy was put back there"
            )
            return False
        self._note(peer, lineage.point)
        return True

    def _note(self, peer: Site, point: StorePoint) -> None:
        self._connected[peer] = self._heard[peer] = self._news[peer] = point


def _named(point: StorePoint) -> str:
    return f"row {point.row} in start {point.boot} ({point.mark:016x})"
