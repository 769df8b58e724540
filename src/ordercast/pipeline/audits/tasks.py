"""The two steps of a pass, as functions of a share of the rows and of the facts known so far.

`judge_messages` sees all rows of some messages and hands on every live row with its part;
`judge_part` sees all rows of a part. A task is plain data and travels to the workers.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from ordercast.pipeline.audits.by_message import judge_agreement, judge_integrity, judge_lost
from ordercast.pipeline.audits.by_part import (
    CROSSES,
    FIRST,
    SEND,
    Carry,
    Crossing,
    Hubs,
    judge_fifo,
    judge_order,
    read_part,
    tell_positions,
    tell_reach,
)
from ordercast.pipeline.audits.causal import judge_causal, tell_sends
from ordercast.pipeline.audits.cuts import Cuts
from ordercast.pipeline.audits.evidence import Evidence
from ordercast.pipeline.audits.facts import Facts
from ordercast.pipeline.audits.listing import Listing
from ordercast.pipeline.audits.numbers import Columns, Ints, StreamArrays
from ordercast.pipeline.audits.places import starts
from ordercast.pipeline.audits.requests import Clients, divide_requests, judge_requests, tell_both
from ordercast.pipeline.audits.rows import DeliveryRows, SendRows, read_deliveries, read_sends
from ordercast.pipeline.audits.survey import Surveyed, survey

MOST_CROSSING = 10_000  # crossing messages that a share tells by name; more mean bad cuts

PART_COLUMNS = ("part", "site", "position", "attempt", "epoch", "message", "flag")


@dataclass(frozen=True)
class JudgingTask:
    """The facts of earlier passes, and the question of this one."""

    facts: Facts
    streams: StreamArrays
    sites_run: Ints
    cuts: Cuts
    causal: bool = False
    wanted: Ints | None = None  # survey these members instead of judging
    known: Surveyed | None = None
    reach: bool = False  # tell what reaches what instead of judging
    carries: Mapping[int, Carry] = field(default_factory=dict)
    hubs: Mapping[int, Hubs] = field(default_factory=dict)
    crossing: Crossing | None = None
    lists: bool = False  # tell every violation, too
    request_shares: int = 0  # shares of the requests of clients; 0: there are none
    sought: Ints | None = None  # tell where these messages are instead of judging

    @property
    def needs_parts(self) -> bool:
        return self.wanted is None and self.sought is None

    def judge_messages(self, columns: Columns) -> tuple[Columns, Evidence]:
        evidence = Evidence()
        deliveries = read_deliveries(columns, self.facts, self.streams)
        if self.wanted is not None:
            survey(deliveries, self.facts, self.streams, self.wanted, evidence)
            return {}, evidence
        if self.sought is not None:
            tell_both(deliveries, self.sought, evidence)
            return {}, evidence
        sends = read_sends(columns)
        if not self.reach:
            self._judge(deliveries, sends, evidence)
        return self._rows(deliveries, sends, evidence), evidence

    def divide_requests(self, columns: Columns, clients: Clients) -> Iterator[tuple[int, bytes]]:
        """The requests in the rows of `judge_messages`, by share."""
        if self.request_shares and self.needs_parts and not self.reach:
            yield from divide_requests(columns, clients, self.facts, self.request_shares)

    def judge_requests(self, values: Iterable[bytes]) -> Evidence:
        """`values` are all of one share of the requests."""
        evidence = Evidence()
        listing = Listing() if self.lists else None
        judge_requests(values, self.facts, self.streams, evidence, listing)
        if listing is not None:
            listing.tell(evidence)
        return evidence

    def _judge(self, deliveries: DeliveryRows, sends: SendRows, evidence: Evidence) -> None:
        evidence.count("rows", len(deliveries))
        evidence.count("annulled", deliveries.annulled)
        evidence.count("unagreed", int(np.count_nonzero(~deliveries.agreed)))
        sent_too = int(np.count_nonzero(sends.find(deliveries.messages)[0]))
        evidence.count("messages", len(deliveries.messages) + len(sends.message) - sent_too)
        listing = Listing() if self.lists else None
        judge_integrity(deliveries, sends, self.streams, self.sites_run, evidence, listing)
        judge_agreement(deliveries, self.facts, self.streams, self.known, evidence, listing)
        judge_lost(deliveries, sends, self.facts, self.streams, self.known, evidence, listing)
        if listing is not None:
            listing.tell(evidence)

    def _rows(self, deliveries: DeliveryRows, sends: SendRows, evidence: Evidence) -> Columns:
        part = self.cuts.part_of(deliveries.site, deliveries.place.position)
        crosses = self._tell_crossing(deliveries, part, evidence)
        flag = deliveries.first * FIRST + crosses[deliveries.index] * CROSSES
        position, attempt, epoch, message = deliveries.place
        values = [part, deliveries.site, position, attempt, epoch, message, flag]
        if self.causal:
            sent = self._send_rows(deliveries, sends, part)
            values = [np.concatenate(both) for both in zip(values, sent, strict=True)]
        return dict(zip(PART_COLUMNS, values, strict=True))

    def _tell_crossing(self, deliveries: DeliveryRows, part: Ints, evidence: Evidence) -> Ints:
        """Messages whose first deliveries are in several parts."""
        crosses = np.zeros(len(deliveries.messages), np.int64)
        rows = np.flatnonzero(deliveries.first)
        if self.cuts.parts == 1 or not len(rows):
            return crosses
        begins = starts(deliveries.index[rows])
        lowest = np.minimum.reduceat(part[rows], begins)
        highest = np.maximum.reduceat(part[rows], begins)
        over = np.flatnonzero(lowest < highest)
        if len(over):
            crosses[deliveries.index[rows[begins[over]]]] = 1
            steps = np.zeros(self.cuts.parts + 1, np.int64)
            np.add.at(steps, lowest[over] + 1, 1)
            np.add.at(steps, highest[over] + 1, -1)
            over_cut = np.cumsum(steps)[1:-1]
            at = np.flatnonzero(over_cut)
            evidence.table("over_cuts", at, over_cut[at])
            evidence.count("unnamed", max(len(over) - MOST_CROSSING, 0))
            named = deliveries.index[rows[begins[over[:MOST_CROSSING]]]]
            mine = rows[np.isin(deliveries.index[rows], named)]
            evidence.table(
                "crossing", part[mine], deliveries.site[mine], *deliveries.place.take(mine)
            )
        return crosses

    def _send_rows(self, deliveries: DeliveryRows, sends: SendRows, part: Ints) -> list[Ints]:
        """A send is in the part of its deliveries; where there are none, in the last."""
        where = self.cuts.last_part(sends.site)
        rows = np.flatnonzero(deliveries.first)
        begins = starts(deliveries.index[rows])
        found, at = sends.find(deliveries.place.message[rows[begins]])
        where[at[found]] = part[rows[begins[found]]]
        flag = np.full(len(where), SEND)
        after = (sends.after_position, sends.after_attempt)
        return [where, sends.site, *after, sends.sent_ns, sends.message, flag]

    def judge_part(self, columns: Columns) -> Evidence:
        """`columns` are those of PART_COLUMNS, all of one part."""
        evidence = Evidence()
        part = int(columns["part"][0])
        rows = read_part(columns, self.streams)
        if self.reach:
            tell_reach(rows, part, evidence)
            return evidence
        several = self.cuts.parts > 1
        carry = self.carries.get(part)
        late = judge_fifo(rows, self.streams, part, carry, several, evidence)
        tell_positions(rows, self.facts, evidence)
        hubs = self.hubs.get(part)
        tangled = judge_order(
            rows, self.streams, self.sites_run, part, hubs, self.crossing, evidence
        )
        wrong = judge_causal(columns, self.streams, evidence) if self.causal else []
        if self.causal and several:
            tell_sends(columns, self.streams, self.cuts, part, evidence)
        if self.lists:
            listing = Listing()
            place = rows.place.take(late)._asdict()
            listing.add("fifo", len(late), site=rows.site[late], **place)
            listing.add("acyclic_order", len(tangled), message=tangled)
            site, position, message, *_ = np.array(wrong, np.int64).reshape(-1, 5).T
            listing.add("causal_order", len(wrong), site=site, position=position, message=message)
            listing.tell(evidence)
        return evidence
