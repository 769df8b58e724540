"""What agreement and loss must know of other messages, where the rows of one do not decide.

For members that lack something and did not close with `end`: how far they went on in each group.
For bases: what lies above them. Each is an extreme over all messages, so shares are looked through
one by one and put together.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ordercast.pipeline.audits.evidence import Evidence, Total
from ordercast.pipeline.audits.facts import Facts, is_in
from ordercast.pipeline.audits.numbers import Ints, StreamArrays
from ordercast.pipeline.audits.places import (
    Extremes,
    PlaceColumns,
    first_places,
    last_places,
    spread,
    starts,
)
from ordercast.pipeline.audits.rows import DeliveryRows

_NONE = np.iinfo(np.int64).min


@dataclass(frozen=True)
class Surveyed:
    """The survey of all shares.

    `last_common`, by (member, other site, group): the place at the other site of the last message
    of the group that both have. `first_above`, by (base, other site): the first place there of
    anything the base's site has above the base. `lowest_above`, by (base, family): the first of the
    family above the base.
    """

    last_epoch: Ints  # by site
    first_epoch: Ints  # by base: the lowest epoch delivered above it
    last_common: Extremes
    first_above: Extremes
    lowest_keys: Ints
    lowest: Ints
    family: Ints  # by stream
    offsets: Ints

    def may_be_below(self, facts: Facts, site: int, message: int) -> bool:
        """Whether a message that nobody delivered may lie below a base, by FIFO order."""
        stream = int(np.searchsorted(self.offsets, message, side="right")) - 1
        for base in np.flatnonzero((facts.base_site == site) & (facts.base_position > 0)):
            key = int(base) * self._families + int(self.family[stream])
            at = int(np.searchsorted(self.lowest_keys, key))
            known = at < len(self.lowest_keys) and self.lowest_keys[at] == key
            if not known or message < self.lowest[at]:
                return True
        return False

    @cached_property
    def _families(self) -> int:
        return families(self.family)


def families(family: Ints) -> int:
    return int(family.max()) + 1 if len(family) else 1


def survey(
    deliveries: DeliveryRows, facts: Facts, streams: StreamArrays, wanted: Ints, evidence: Evidence
) -> None:
    """`wanted`: (member * groups + group) of members that lack something in the group, sorted."""
    rows = np.flatnonzero(deliveries.first)
    last = np.full(facts.sites, _NONE, np.int64)
    np.maximum.at(last, deliveries.site[rows], deliveries.place.epoch[rows])
    seen = np.flatnonzero(last > _NONE)
    evidence.table("last_epoch", seen, last[seen])
    groups = deliveries.group[deliveries.index[rows]]
    asked = rows[is_in(deliveries.site[rows] * facts.groups + groups, wanted)]
    one, other = _with_others(deliveries, asked)
    keys = (deliveries.site[one] * facts.sites + deliveries.site[other]) * facts.groups
    keys += deliveries.group[deliveries.index[one]]
    _tell(evidence, "last_common", last_places(keys, deliveries.place.take(other)))
    _survey_bases(deliveries, facts, streams, rows, evidence)


def _survey_bases(
    deliveries: DeliveryRows, facts: Facts, streams: StreamArrays, rows: Ints, evidence: Evidence
) -> None:
    family = streams.family[deliveries.stream][deliveries.index]
    count = families(streams.family)
    base_keys, epochs, firsts, lows, lowest = [], [], [], [], []
    for base in range(len(facts.base_site)):
        above = deliveries.place.position > facts.base_position[base]
        above &= deliveries.site == facts.base_site[base]
        own = rows[above[rows]]
        if len(own):
            base_keys.append(base)
            epochs.append(int(deliveries.place.epoch[own].min()))
            _, other = _with_others(deliveries, own)
            firsts.append(
                first_places(
                    base * facts.sites + deliveries.site[other], deliveries.place.take(other)
                )
            )
        live = np.flatnonzero(above)
        order = live[np.lexsort((deliveries.place.message[live], family[live]))]
        heads = order[starts(family[order])]
        lows.append(base * count + family[heads])
        lowest.append(deliveries.place.message[heads])
    evidence.table("first_epoch", np.array(base_keys), np.array(epochs))
    if firsts:
        keys = np.concatenate([first.keys for first in firsts])
        places = PlaceColumns(*map(np.concatenate, zip(*(f.places for f in firsts), strict=True)))
        _tell(evidence, "first_above", Extremes(keys, places))
    if lows:
        evidence.table("lowest_above", np.concatenate(lows), np.concatenate(lowest))


def _with_others(deliveries: DeliveryRows, rows: Ints) -> tuple[Ints, Ints]:
    """Each row beside every first delivery of the same message."""
    index = deliveries.index[rows]
    begins = deliveries.message_starts[index]
    ends = np.append(deliveries.message_starts, len(deliveries))[index + 1]
    owner, place = spread(ends - begins)
    other = begins[owner] + place
    kept = deliveries.first[other]
    return rows[owner[kept]], other[kept]


def _tell(evidence: Evidence, name: str, extremes: Extremes) -> None:
    evidence.table(name, extremes.keys, *extremes.places)


def put_together(total: Total, facts: Facts, streams: StreamArrays) -> Surveyed:
    last_epoch = np.full(facts.sites, _NONE, np.int64)
    sites, epochs = total.table("last_epoch", 2)
    np.maximum.at(last_epoch, sites, epochs)
    last_epoch[last_epoch == _NONE] = 0
    first_epoch = np.full(len(facts.base_site), np.iinfo(np.int64).max, np.int64)
    bases, epochs = total.table("first_epoch", 2)
    np.minimum.at(first_epoch, bases, epochs)
    keys, *places = total.table("last_common", 5)
    last_common = last_places(keys, PlaceColumns(*places))
    keys, *places = total.table("first_above", 5)
    first_above = first_places(keys, PlaceColumns(*places))
    keys, lowest = total.table("lowest_above", 2)
    order = np.lexsort((lowest, keys))
    heads = order[starts(keys[order])]
    return Surveyed(
        last_epoch=last_epoch,
        first_epoch=first_epoch,
        last_common=last_common,
        first_above=first_above,
        lowest_keys=keys[heads],
        lowest=lowest[heads],
        family=streams.family,
        offsets=streams.offsets,
    )
