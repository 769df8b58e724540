"""How heavy an item of a link is."""

from ordercast.model.messages import Batch
from ordercast.wire.frames import Item, Offer, Relay, Report, Settled, Submit, Timed
from ordercast.wire.ring import Numbered, Token
from ordercast.wire.stability import RoundAck, RoundInfo, RoundMissing
from ordercast.wire.swap import Counted, Follows, Swap
from ordercast.wire.tom import Body, Fetch

_BATCH = 192  # of a batch without its body


def weight_of(item: Item) -> int:
    """Roughly the bytes of an item, so that a frame of many stays below what the wire takes."""
    if type(item) is Relay:
        batch, more = item.placed.batch, 8 * len(item.placed.key.path)
    elif type(item) is Submit or type(item) is Body:
        batch, more = item.batch, 0
    else:
        return _other_weight(item)
    if batch.past or batch.members:
        return more + _batch_weight(batch)
    return more + _BATCH + len(batch.body)  # most are such: this is asked twice for each item


def _other_weight(item: Item) -> int:
    if type(item) is Report:
        return 64 + 96 * len(item.counts)
    if isinstance(item, (RoundAck, RoundInfo)):
        return 64 + 176 * len(item.counts)
    if type(item) is RoundMissing:
        return 64 + 66 * len(item.sites)
    if type(item) is Fetch:
        return 64 + 160 * len(item.wanted)
    if type(item) is Settled:
        return 64 + 96 * len(item.seqs)
    if type(item) is Token:
        return 192 + 96 * len(item.missing)
    if isinstance(item, (Swap, Follows, Counted)):
        return 256 + _batch_weight(item.batch)
    return 16 + _batch_weight(item.batch) if isinstance(item, (Offer, Timed, Numbered)) else 192


def _batch_weight(batch: Batch) -> int:
    past = sum(96 + 66 * len(members) for _, _, members in batch.past)
    return _BATCH + len(batch.body) + past + 66 * len(batch.members)
