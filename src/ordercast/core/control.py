"""What comes on the lane CONTROL: reports, rounds of a stability protocol, news of what is final,
and what an ordering object has of its own."""

from typing import TYPE_CHECKING

from ordercast.model.errors import PeerMistake
from ordercast.model.groups import Site as SiteName
from ordercast.wire.frames import DurableCounts, Item, Settled
from ordercast.wire.stability import ROUNDS

if TYPE_CHECKING:
    from ordercast.core.site import Site


def take_control(site: "Site", peer: SiteName, item: Item) -> None:
    if type(item) is Settled:
        for group, seq in item.seqs:
            site.own.check_stable(peer, group, seq)
        for group, seq in item.seqs:  # a store that lost its end has given less than others know
            site.own.stable(group, min(seq, site.own.last_seq.get(group, 0)))
    elif type(item) is DurableCounts:
        news = site.stability.receive(peer, item)
        if news:
            site.settle(news)
        if not item.counts:
            site.tell_settled(peer, site.retention.final_seqs(peer))
    elif isinstance(item, ROUNDS):
        news = site.stability.receive(peer, item)
        if news:
            site.settle(news)
    elif site.heading is not None:
        site.heading.check_control(peer, item)
        site.heading.control(peer, item)
    else:
        raise PeerMistake(f"a {type(item).__name__} is not of this protocol")
