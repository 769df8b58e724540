"""The checks that need only the rows of a message: integrity, agreement and lost.

Each function sees all rows of its messages. Agreement and loss sometimes depend on other messages:
on later deliveries of a member, or on rows above its base. As long as that is not known (`known` is
None) the pair stays open, and the evidence says what to look for.
"""

from dataclasses import dataclass

import numpy as np

from ordercast.pipeline.audits.evidence import Evidence
from ordercast.pipeline.audits.facts import Facts, is_in
from ordercast.pipeline.audits.listing import IN_TWO_EPOCHS, Listing
from ordercast.pipeline.audits.numbers import Bools, Ints, StreamArrays
from ordercast.pipeline.audits.places import spread, starts
from ordercast.pipeline.audits.rows import DeliveryRows, SendRows
from ordercast.pipeline.audits.survey import Surveyed

ENDED, LATER_EPOCH, LATER_MESSAGE = 0, 1, 2


def judge_integrity(
    deliveries: DeliveryRows,
    sends: SendRows,
    streams: StreamArrays,
    sites_run: Ints,
    evidence: Evidence,
    listing: Listing | None,
) -> None:
    """Bad rows, and messages in two epochs."""
    was_sent, at = sends.find(deliveries.messages)
    faults = np.stack(
        [
            deliveries.repeated,
            ~was_sent[deliveries.index],
            ~deliveries.member,
            _other_digest(deliveries, sends, was_sent, at),
        ]
    )
    bad = np.flatnonzero(faults.any(axis=0))
    split = _in_two_epochs(deliveries)
    check = evidence.check("integrity")
    key = shown = None
    if len(bad):
        order = np.lexsort((*deliveries.place.take(bad)[::-1], deliveries.site[bad]))
        row = int(bad[order[0]])
        place = [int(column[row]) for column in deliveries.place]
        site = int(deliveries.site[row])
        key = [int(sites_run[site]), 0, site, *place]
        shown = [0, site, *place, *np.flatnonzero(faults[:, row]).tolist()]
    check.see(len(bad), key, shown or [])
    if len(split):
        rank, seq = streams.id_order(deliveries.messages[split])
        least = int(np.lexsort((seq, rank))[0])
        own = _rows_of_message(deliveries, int(split[least]))
        epochs = np.unique(deliveries.place.epoch[own][deliveries.agreed[own]])
        run = int(sites_run[deliveries.site[own[0]]])
        shown = [1, int(deliveries.messages[split[least]]), *epochs.tolist()]
        check.see(len(split), [run, 1, int(rank[least]), int(seq[least])], shown)
    if listing is not None:
        reasons = (faults[:, bad] * (1 << np.arange(len(faults)))[:, None]).sum(axis=0)
        listing.add(
            "integrity",
            len(bad),
            site=deliveries.site[bad],
            reason=reasons,
            **deliveries.place.take(bad)._asdict(),
        )
        two = np.full(len(split), IN_TWO_EPOCHS)
        listing.add("integrity", len(split), message=deliveries.messages[split], reason=two)


def _other_digest(deliveries: DeliveryRows, sends: SendRows, was_sent: Bools, at: Ints) -> Bools:
    if not len(sends.message):
        return np.zeros(len(deliveries), bool)
    sent = at[deliveries.index]
    other = deliveries.has_digest & was_sent[deliveries.index] & sends.has_digest[sent]
    other &= deliveries.digest != sends.digest[sent]
    if sends.other_digests:
        for row in np.flatnonzero(
            deliveries.has_digest & is_in(deliveries.place.message, _sorted(sends.other_digests))
        ):
            digests = sends.other_digests[int(deliveries.place.message[row])]
            other[row] = None not in digests and int(deliveries.digest[row]) not in digests
    return other


def _sorted(keys: dict[int, set[int | None]]) -> Ints:
    return np.array(sorted(keys), np.int64)


def _in_two_epochs(deliveries: DeliveryRows) -> Ints:
    rows = np.flatnonzero(deliveries.agreed)
    if not len(rows):
        return rows
    begins = starts(deliveries.index[rows])
    epochs = deliveries.place.epoch[rows]
    least, most = np.minimum.reduceat(epochs, begins), np.maximum.reduceat(epochs, begins)
    found: Ints = deliveries.index[rows[begins[least != most]]]
    return found


def _rows_of_message(deliveries: DeliveryRows, index: int) -> Ints:
    start = deliveries.message_starts[index]
    more = deliveries.message_starts[index + 1 : index + 2]
    return np.arange(start, more[0] if len(more) else len(deliveries))


@dataclass(frozen=True)
class MissingPairs:
    """Messages that some member delivered, with their epoch, and each member that did not."""

    index: Ints  # of the message
    epoch: Ints
    pair: Ints
    member: Ints


def find_missing(deliveries: DeliveryRows, facts: Facts) -> MissingPairs:
    rows = np.flatnonzero(deliveries.first & deliveries.member)
    if not len(rows):
        empty = np.empty(0, np.int64)
        return MissingPairs(empty, empty, empty, empty)
    begins = starts(deliveries.index[rows])
    index = deliveries.index[rows[begins]]
    epoch = np.minimum.reduceat(deliveries.place.epoch[rows], begins)
    pair = facts.pairs(deliveries.group[index], epoch)
    wanted = facts.member_starts[pair + 1] - facts.member_starts[pair]
    # Nearly all messages are complete: as many first deliveries as members, all in that epoch.
    in_epoch = deliveries.place.epoch[rows] == np.repeat(
        epoch, np.diff(np.append(begins, len(rows)))
    )
    there = np.add.reduceat(in_epoch.astype(np.int64), begins)
    lacking = np.flatnonzero(there < wanted)
    owner, place = spread(wanted[lacking])
    members = facts.member_sites[facts.member_starts[pair[lacking]][owner] + place]
    index, epoch, pair = index[lacking][owner], epoch[lacking][owner], pair[lacking][owner]
    have = deliveries.keys[deliveries.first | ~deliveries.agreed]
    absent = ~is_in(deliveries.messages[index] * facts.sites + members, have)
    return MissingPairs(index[absent], epoch[absent], pair[absent], members[absent])


def judge_agreement(
    deliveries: DeliveryRows,
    facts: Facts,
    streams: StreamArrays,
    known: Surveyed | None,
    evidence: Evidence,
    listing: Listing | None,
) -> None:
    """Count the missing pairs whose place in the order the member has passed."""
    missing = find_missing(deliveries, facts)
    messages = deliveries.messages[missing.index]
    excused = is_in(messages * facts.sites + missing.member, facts.gap_keys)
    below, open_ = _below_bases(deliveries, facts, missing, known)
    excused |= below
    reason = np.where(facts.ended[missing.member], ENDED, -1)
    if known is None:
        open_ = ~excused & (open_ | (reason < 0))
        groups = deliveries.group[missing.index[open_]]
        wanted = np.unique(missing.member[open_] * facts.groups + groups)
        evidence.table("open", wanted)
        due = np.flatnonzero(~excused & ~open_)
        pending = 0
    else:
        later = known.last_epoch[missing.member] > missing.epoch
        reason[(reason < 0) & later] = LATER_EPOCH
        rows = np.flatnonzero(~excused & (reason < 0))
        passed = _went_on(deliveries, facts, missing, rows, known)
        reason[rows[passed]] = LATER_MESSAGE
        due = np.flatnonzero(~excused & (reason >= 0))
        pending = len(rows) - int(np.count_nonzero(passed))
    evidence.count("pending", pending)
    key = shown = None
    if len(due):
        rank, seq = streams.id_order(messages[due])
        least = int(np.lexsort((missing.member[due], seq, rank))[0])
        one = int(due[least])
        key = [int(rank[least]), int(seq[least]), int(missing.member[one])]
        own = _rows_of_message(deliveries, int(missing.index[one]))
        pairs = np.full(len(own), missing.pair[one])
        own = own[deliveries.first[own] & facts.are_members(pairs, deliveries.site[own])]
        there = [int(deliveries.site[own[0]]), int(deliveries.place.position[own[0]])]
        shown = [int(messages[one]), int(missing.member[one]), *there, int(reason[one])]
    evidence.check("agreement").see(len(due), key, shown or [])
    if listing is not None:
        listing.add(
            "agreement",
            len(due),
            site=missing.member[due],
            epoch=missing.epoch[due],
            message=messages[due],
            reason=reason[due],
        )


def _below_bases(
    deliveries: DeliveryRows, facts: Facts, missing: MissingPairs, known: Surveyed | None
) -> tuple[Bools, Bools]:
    """Which pairs lie below a base of the member, and for which that is not known yet."""
    below = np.zeros(len(missing.member), bool)
    open_ = np.zeros(len(missing.member), bool)
    bases = np.flatnonzero(np.isin(facts.base_site, missing.member))
    for base in bases:
        own = missing.member == facts.base_site[base]
        epoch = int(facts.base_epoch[base])
        doubtful = own & (missing.epoch == epoch) if epoch > 0 else own
        if epoch > 0:
            below |= own & (missing.epoch < epoch)
        if facts.base_position[base] == 0:
            continue
        if known is None:
            open_ |= doubtful
        else:
            rows = np.flatnonzero(doubtful & ~below)
            rows = rows[missing.epoch[rows] <= known.first_epoch[base]]
            below[rows[~_shown_above(deliveries, facts, missing, rows, int(base), known)]] = True
    return below, open_


def _deliverers(deliveries: DeliveryRows, missing: MissingPairs, rows: Ints) -> tuple[Ints, Ints]:
    """For each of the pairs, all rows of its message: (which of `rows`, the row)."""
    begins = deliveries.message_starts[missing.index[rows]]
    ends = np.append(deliveries.message_starts, len(deliveries))[missing.index[rows] + 1]
    owner, place = spread(ends - begins)
    found = begins[owner] + place
    kept = deliveries.first[found]
    return owner[kept], found[kept]


def _shown_above(
    deliveries: DeliveryRows,
    facts: Facts,
    missing: MissingPairs,
    rows: Ints,
    base: int,
    known: Surveyed,
) -> Bools:
    """For each pair: whether some site delivered, before the message, a message that the member has
    above its base."""
    owner, found = _deliverers(deliveries, missing, rows)
    there, first = known.first_above.look_up(base * facts.sites + deliveries.site[found])
    hits = there & first.before(deliveries.place.take(found))
    above = np.zeros(len(rows), bool)
    above[owner[hits]] = True
    return above


def _went_on(
    deliveries: DeliveryRows, facts: Facts, missing: MissingPairs, rows: Ints, known: Surveyed
) -> Bools:
    """For each pair: whether some member delivered, after the message, another message of the group
    that both sites have."""
    owner, found = _deliverers(deliveries, missing, rows)
    inside = facts.are_members(missing.pair[rows][owner], deliveries.site[found])
    owner, found = owner[inside], found[inside]
    groups = deliveries.group[missing.index[rows]][owner]
    keys = (missing.member[rows][owner] * facts.sites + deliveries.site[found]) * facts.groups
    there, last = known.last_common.look_up(keys + groups)
    hits = there & deliveries.place.take(found).before(last)
    passed = np.zeros(len(rows), bool)
    passed[owner[hits]] = True
    return passed


def judge_lost(
    deliveries: DeliveryRows,
    sends: SendRows,
    facts: Facts,
    streams: StreamArrays,
    known: Surveyed | None,
    evidence: Evidence,
    listing: Listing | None,
) -> None:
    """Messages delivered nowhere that some member should have."""
    delivered = is_in(sends.message, deliveries.messages)
    agreed = is_in(sends.message, deliveries.place.message[deliveries.agreed])
    nowhere = np.flatnonzero(~(delivered | is_in(sends.message, facts.dropped)))
    pending = int(np.count_nonzero(delivered & ~agreed))
    lost: list[tuple[int, int]] = []
    is_based = np.zeros(facts.sites, bool)
    is_based[facts.base_site[facts.base_position > 0]] = True
    group = streams.group[streams.of(sends.message[nowhere])]
    has_gap = is_in(sends.message[nowhere], np.unique(facts.gap_keys // max(facts.sites, 1)))
    for row, number, gap in zip(nowhere.tolist(), group.tolist(), has_gap.tolist(), strict=True):
        end = facts.group_ends.get(number)
        if end is None or not end.ended or not facts.ended[sends.site[row]]:
            pending += 1
            continue
        based = [site for site in end.everyone if is_based[site]]
        if based and known is None:
            evidence.table("open_lost", np.zeros(1, np.int64))
            continue
        member: int | None = end.ended[0]
        if based or gap:
            message = int(sends.message[row])
            may_lack = {
                site
                for site in end.everyone
                if (gap and _has_gap(facts, site, message))
                or (
                    site in based and known is not None and known.may_be_below(facts, site, message)
                )
            }
            able = (site for site in end.ended if site not in may_lack)
            member = next((s for s in able if not may_lack or s in end.always), None)
        if member is None:
            pending += 1
        else:
            lost.append((row, member))
    evidence.count("pending", pending)
    rows, members = np.array(lost, np.int64).reshape(-1, 2).T
    key = shown = None
    if len(rows):
        rank, seq = streams.id_order(sends.message[rows])
        least = int(np.lexsort((seq, rank))[0])
        key = [int(rank[least]), int(seq[least])]
        shown = [int(sends.message[rows[least]]), int(members[least])]
    evidence.check("lost").see(len(rows), key, shown or [])
    if listing is not None:
        listing.add("lost", len(rows), site=members, message=sends.message[rows])


def _has_gap(facts: Facts, site: int, message: int) -> bool:
    return bool(is_in(np.array([message * facts.sites + site]), facts.gap_keys)[0])
