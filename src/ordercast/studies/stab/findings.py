"""What [STAB] says about its tables, figures and trigger, held against the measured numbers.

Statements are in our words; whether they hold is computed from the results, never written down.
"""

from collections.abc import Callable, Sequence
from math import log2

from ordercast.core.stability.protocols import PROTOCOLS
from ordercast.pipeline.sweeps.results import Results
from ordercast.sim.rounds.tree import TreeShape, parse_tree
from ordercast.studies.fits import order, power
from ordercast.studies.reproduction import (
    MEASURED,
    OURS,
    Finding,
    Spot,
    curve,
    judged,
    values,
)
from ordercast.studies.stab.figures import (
    best_measured,
    by_limit,
    complete,
    mended_limit,
    printed_limit,
    random_spots,
)
from ordercast.studies.stab.printed_values import PROCESSED_BY_THE_FIRST, RATIOS, ROUNDS
from ordercast.studies.stab.proportions import heights_findings, hops_findings
from ordercast.studies.stab.runs import BUFFER, MEASURED_LIMIT, RATE, STRUCTURED
from ordercast.studies.wording import means

ALIKE = 0.05  # of each other, at most: what still counts as almost identical
CLOSE = 0.25  # likewise: what still counts as close
FLAT = 0.1  # power of n, at most: what still counts as almost flat; 1.4 times from 47 to 1,365
NEAR = 0.15  # of the formula: what still counts as agreeing with it
SLIGHTLY = 0.1  # more, at most
DRAMATICALLY = 1.0  # power of n, more than: more than in proportion
MUCH_BETTER = 0.5  # of a power less, at least: another order
TENS_OF_THOUSANDS = 20000.0  # members, at least: what still counts as tens of thousands
PRINTED = 0.1  # of the printed number: what still counts as that number


Said = Callable[[TreeShape], float]
_TABLE_1: Sequence[tuple[str, Sequence[tuple[str, str, Said]]]] = (
    (
        "CoordP takes 3 rounds and FullDist 2, whatever the size.",
        [("coordp", "rounds", ROUNDS["coordp"]), ("full_dist", "rounds", ROUNDS["full_dist"])],
    ),
    ("Train takes 2n rounds.", [("train", "rounds", ROUNDS["train"])]),
    ("S_CoordP takes p + 2 rounds.", [("s_coordp", "rounds", ROUNDS["s_coordp"])]),
    ("S_Train takes bp + 2 rounds.", [("s_train", "rounds", ROUNDS["s_train"])]),
    (
        "CoordP: the coordinator processes n + 3 messages, others 3.",
        [
            ("coordp", "processed_root", PROCESSED_BY_THE_FIRST["coordp"]),
            ("coordp", "processed_internal", lambda _: 3),
            ("coordp", "processed_leaf", lambda _: 3),
        ],
    ),
    (
        "FullDist: every member processes n + 1, Train: 4.",
        [
            ("full_dist", "processed_root", PROCESSED_BY_THE_FIRST["full_dist"]),
            ("full_dist", "processed_leaf_least", lambda s: s.n + 1),
            ("train", "processed_root", PROCESSED_BY_THE_FIRST["train"]),
            ("train", "processed_leaf_least", lambda _: 4),
        ],
    ),
    (
        "S_CoordP: b + 4 at the root, b + 3 at inner members, 3 at leaves.",
        [
            ("s_coordp", "processed_root", PROCESSED_BY_THE_FIRST["s_coordp"]),
            ("s_coordp", "processed_internal", lambda s: s.b + 3),
            ("s_coordp", "processed_leaf", lambda _: 3),
        ],
    ),
    (
        "S_Train: 5 at the root, 4 or 5 at inner members, 3 or 4 at leaves.",
        [
            ("s_train", "processed_root", PROCESSED_BY_THE_FIRST["s_train"]),
            ("s_train", "processed_internal_least", lambda _: 4),
            ("s_train", "processed_internal", lambda _: 5),
            ("s_train", "processed_leaf_least", lambda _: 3),
            ("s_train", "processed_leaf", lambda _: 4),
        ],
    ),
)


def table1_findings(results: Results) -> list[Finding]:
    trees = sorted((parse_tree(tree) for tree in values(results, "tree")), key=lambda s: s.n)
    at = f"b, p = {'; '.join(f'{shape.b}, {shape.p}' for shape in trees)}:"
    found = []
    for statement, cells in _TABLE_1:
        same, shown = [], []
        for protocol, measure, said in cells:
            rows = results.where(measure=measure, protocol=protocol)
            measured = {row.parameters["tree"]: row.mean for row in rows}
            numbers = [measured[shape.text()] for shape in trees]
            same += [n == said(shape) for n, shape in zip(numbers, trees, strict=True)]
            shown.append(", ".join(f"{number:g}" for number in numbers))
        found.append(Finding(statement, judged(same), f"{at} {'; '.join(shown)}."))
    return found


def table4_findings(results: Results) -> list[Finding]:
    def of(protocol: str, kind: str) -> list[Spot]:
        return complete(results, f"on_hops_{kind}", protocol)

    multicasts = [of(p, kind) for p in ("coordp", *STRUCTURED) for kind in ("start", "info")]
    acks, starts = of("s_coordp", "ack"), of("train", "start")
    every = of("full_dist", "info")
    at = _members(acks)
    return [
        Finding(
            "A multicast crosses every link once: n − 1 STARTs and n − 1 INFOs on all hops.",
            judged([spot.y == spot.x - 1 for spots in multicasts for spot in spots]),
            f"{at} {means(multicasts[0])} each.",
        ),
        Finding(
            "S_CoordP's ACKs travel one hop each: n − 1, and 3(n − 1) messages in all.",
            judged(
                [spot.y == spot.x - 1 for spot in acks]
                + [s.y == 3 * (s.x - 1) for s in complete(results, "messages_on_hops", "s_coordp")]
            ),
            f"{at} {means(acks)} ACKs.",
        ),
        Finding(
            "FullDist: n(n − 1).",
            judged([spot.y == spot.x * (spot.x - 1) for spot in every]),
            f"{at} {means(every)}.",
        ),
        Finding(
            "Train has one START.",
            judged([spot.y == 1 for spot in starts]),
            f"{at} {means(starts)}: by its description it begins with an ACK (errata STAB-3)."
            f" ACKs: {means(of('train', 'ack'))}.",
        ),
        *_orders(results),
    ]


_GROWTH = {"coordp": "n log n", "full_dist": "n²", "train": "n", "s_coordp": "n", "s_train": "n"}


def _orders(results: Results) -> list[Finding]:
    """Table 4's last column, by the order of growth that fits best."""
    found = []
    for protocols, statement, aside in (
        (("coordp",), "CoordP's total grows as n log n.",
         " (On trees of one height, as Table 3's are, the way to the root hardly grows with n.)"),
        (("full_dist", "train", *STRUCTURED),
         "FullDist's total grows as n², that of the others as n.", ""),
    ):  # fmt: skip
        totals = {p: complete(results, "messages_on_hops", p) for p in protocols}
        fits = {p: order(spots) for p, spots in totals.items()}
        told = ", ".join(
            f"{p} {fit} (power {power(totals[p]):.2f},"
            f" {totals[p][0].y / totals[p][0].x:.1f} to {totals[p][-1].y / totals[p][-1].x:,.1f}"
            " per member)"
            for p, fit in fits.items()
        )
        found.append(
            Finding(
                statement,
                judged([fit == _GROWTH[p] for p, fit in fits.items()]),
                f"{_members(totals[protocols[0]])} fits best: {told}."
                f"{aside if fits[protocols[0]] != _GROWTH[protocols[0]] else ''}",
            )
        )
    return found


def messages_findings(results: Results) -> list[Finding]:
    found = _orders(results)
    for basic, structured in (("coordp", "s_coordp"), ("full_dist", "s_coordp"),
                              ("train", "s_train")):  # fmt: skip
        times = _times(results, "messages_on_hops", basic, structured)
        found.append(
            Finding(
                f"{structured} reduces the messages of {basic} by at least a factor of log n.",
                judged([spot.y >= log2(spot.x) for spot in times]),
                f"{_members(times)} {means(times, 1)} times fewer; log₂ n is"
                f" {', '.join(f'{log2(spot.x):.1f}' for spot in times)}.",
            )
        )
    return found


def queue_findings(results: Results) -> list[Finding]:
    link = {p: complete(results, "queue_link", p) for p in PROTOCOLS}
    cpu = {p: complete(results, "queue_cpu", p) for p in PROTOCOLS}
    at = _members(link["coordp"])
    ones = [spot.y == 1 for p in ("train", *STRUCTURED) for spot in link[p]]
    return [
        *(
            Finding(
                f"FullDist has the longest queue, then CoordP; both grow with n: {where}.",
                judged(
                    [a.y > b.y for a, b in zip(queue["full_dist"], queue["coordp"], strict=True)]
                    + [_grows(queue["full_dist"]), _grows(queue["coordp"])]
                ),
                f"{at} {means(queue['full_dist'])} against {means(queue['coordp'])}.",
            )
            for where, queue in (("on links", link), ("at processors", cpu))
        ),
        Finding(
            "The queue of Train and of both structured protocols stays at 1: on links.",
            judged(ones),
            f"{at} S_CoordP {means(link['s_coordp'])}.",
        ),
        Finding(
            "It stays at 1: at processors.",
            judged([spot.y == 1 for p in ("train", *STRUCTURED) for spot in cpu[p]]),
            f"{at} Train {means(cpu['train'])}, S_CoordP {means(cpu['s_coordp'])} (one from"
            f" each child, errata STAB-8), S_Train {means(cpu['s_train'])}.",
        ),
    ]


def rtt_findings(results: Results) -> list[Finding]:
    rtt = {p: complete(results, "rtt_ms", p) for p in PROTOCOLS}
    at = _members(rtt["coordp"])
    apart = [abs(a.y - b.y) / b.y for a, b in zip(rtt["full_dist"], rtt["coordp"], strict=True)]
    longest = [
        t.y > max(c.y, f.y)
        for t, c, f in zip(rtt["train"], rtt["coordp"], rtt["full_dist"], strict=True)
    ]
    return [
        Finding(
            "Train has the longest round trip of the basic protocols.",
            judged(longest),
            f"{at} {means(rtt['train'])} ms, one of its two circulations; CoordP"
            f" {means(rtt['coordp'])} ms.",
        ),
        Finding(
            "CoordP and FullDist are almost identical.",
            judged([each <= ALIKE for each in apart]),
            f"{at} {', '.join(f'{100 * each:.1f} %' for each in apart)} apart (taken as almost"
            f" identical: {100 * ALIKE:.0f} %).",
        ),
        Finding(
            "S_Train takes longer than S_CoordP, and grows more.",
            judged(
                [a.y > b.y for a, b in zip(rtt["s_train"], rtt["s_coordp"], strict=True)]
                + [power(rtt["s_train"]) > power(rtt["s_coordp"])]
            ),
            f"{at} {means(rtt['s_train'], 1)} ms against {means(rtt['s_coordp'], 1)} ms;"
            f" powers of n {power(rtt['s_train']):.2f} and {power(rtt['s_coordp']):.2f}.",
        ),
        _slightly(results),
        _random_trees(results),
    ]


def _slightly(results: Results) -> Finding:
    """§5.4.2: the first member's round trip stands for all."""
    told, cases = [], []
    for protocol in PROTOCOLS:
        slowest = complete(results, "slowest_rtt_ms", protocol)
        ratios = [
            a.y / b.y for a, b in zip(slowest, complete(results, "rtt_ms", protocol), strict=True)
        ]
        cases += [ratio <= 1 + SLIGHTLY for ratio in ratios]
        told.append(f"{protocol} {min(ratios):.2f} to {max(ratios):.2f}")
    return Finding(
        "At other members round trips are only slightly larger than at the first.",
        judged(cases),
        f"The longest, times the first member's: {'; '.join(told)} (slightly: at most"
        f" {1 + SLIGHTLY:g}).",
    )


def _random_trees(results: Results) -> Finding:
    """The mean of a size's random trees beside its complete one."""
    told, close = [], []
    for protocol in PROTOCOLS:
        drawn = random_spots(results, "rtt_ms", protocol)
        shares = []
        for spot in complete(results, "rtt_ms", protocol):
            same = [each.y for each in drawn if each.x == spot.x]
            if same:
                shares.append(sum(same) / len(same) / spot.y)
        close += [abs(share - 1) <= CLOSE for share in shares]
        told.append(f"{protocol} {min(shares):.2f} to {max(shares):.2f}")
    trees = len(values(results, "random_tree"))
    return Finding(
        "Round trips on random trees are close to those on the complete ones.",
        judged(close),
        f"{trees} random trees; mean by size, times the complete tree's: {', '.join(told)} (taken"
        f" as close: within {100 * CLOSE:.0f} %).",
    )


def pairs_findings(results: Results) -> list[Finding]:
    rtt = {p: complete(results, "rtt_ms", p) for p in PROTOCOLS}
    powers = {p: power(spots) for p, spots in rtt.items()}
    a = _times(results, "rtt_ms", "coordp", "s_coordp")
    b = _times(results, "rtt_ms", "train", "s_train")
    return [
        Finding(
            "CoordP's round trip grows dramatically with n while S_CoordP's stays almost flat.",
            judged([powers["coordp"] > DRAMATICALLY, powers["s_coordp"] <= FLAT]),
            f"Powers of n: {powers['coordp']:.2f} and {powers['s_coordp']:.2f} (taken as dramatic:"
            f" more than {DRAMATICALLY:g}, as almost flat: {FLAT:g} or less; arrays of 4n bytes"
            f" take longer to send). S_CoordP goes from {rtt['s_coordp'][0].y:.1f} to"
            f" {rtt['s_coordp'][-1].y:.1f} ms, CoordP from {rtt['coordp'][0].y:,.0f} to"
            f" {rtt['coordp'][-1].y:,.0f}. {_members(a)} {means(a, 1)} times shorter.",
        ),
        Finding(
            "FullDist's grows as sharply.",
            judged([powers["full_dist"] > DRAMATICALLY]),
            f"Power of n: {powers['full_dist']:.2f}.",
        ),
        Finding(
            "S_Train scales much better than Train.",
            judged([powers["train"] - powers["s_train"] >= MUCH_BETTER, *(s.y > 1 for s in b)]),
            f"Powers of n: {powers['s_train']:.2f} and {powers['train']:.2f} (much better:"
            f" {MUCH_BETTER:g} less, or more than that). {_members(b)} {means(b, 1)} times"
            " shorter.",
        ),
        *hops_findings(results),
    ]


def scale_findings(results: Results) -> list[Finding]:
    return [
        *_printed_ratios(results),
        *heights_findings(results),
        *_orders(results),
        _scaling(results),
        _per_member(results),
        *_elsewhere(results),
    ]


def _printed_ratios(results: Results) -> list[Finding]:
    return [
        Finding(
            f"With {members:,} members {structured} is {printed:,} times quicker than {basic}.",
            judged([abs(spot.y - printed) <= PRINTED * printed]),
            f"{spot.y:,.1f} times (errata STAB-5: no plain reading of the cost model gives the"
            " printed numbers).",
        )
        for basic, structured, members, printed in RATIOS
        for spot in _times(results, "rtt_ms", basic, structured)
        if spot.x == members
    ]


def _scaling(results: Results) -> Finding:
    """The abstract's claim."""
    rtt = {p: complete(results, "rtt_ms", p) for p in PROTOCOLS}
    most = min(rtt[p][-1].x for p in STRUCTURED)
    told = ", ".join(
        f"{p} {power(spots):.2f} (n = {spots[0].x:,.0f} to {spots[-1].x:,.0f}:"
        f" {_short(spots[0].y)} to {_short(spots[-1].y)} ms)"
        for p, spots in rtt.items()
    )
    return Finding(
        "The structured protocols scale to at least tens of thousands of participants.",
        judged([
            *(power(rtt[p]) < DRAMATICALLY for p in STRUCTURED), most >= TENS_OF_THOUSANDS,
        ]),
        f"Round-trip time, fitted powers of n: {told} (to scale: less than {DRAMATICALLY:g}, up to"
        f" {TENS_OF_THOUSANDS:,.0f} members or more).",
    )  # fmt: skip


def _per_member(results: Results) -> Finding:
    told = []
    for protocol in PROTOCOLS:
        spots = complete(results, "messages_per_member", protocol)
        first, last = spots[0], spots[-1]
        told.append(
            f"{protocol} {power(spots):.2f} (n = {first.x:,.0f} to {last.x:,.0f}:"
            f" {_short(first.y)} to {_short(last.y)})"
        )
    return Finding(
        "Messages on all hops per member against n.",
        MEASURED,
        f"Fitted powers of n: {', '.join(told)}.",
        kind=OURS,
    )


def _elsewhere(results: Results) -> list[Finding]:
    """§5.3.1 and §7 leave both for later."""
    found = []
    for where, what in (
        ({"placement": "shuffled"}, "members anywhere in the network's tree"),
        ({"links": "wan"}, "the root's children in other regions"),
    ):
        told, kept = [], []
        for protocol in PROTOCOLS:
            near = {spot.x: spot.y for spot in complete(results, "rtt_ms", protocol)}
            far = curve(results, "members", "rtt_ms", protocol=protocol, **where)
            first, last = far[0], far[-1]
            told.append(
                f"{protocol} {first.y / near[first.x]:.1f} times as long at n = {first.x:,.0f},"
                f" {last.y / near[last.x]:.1f} at {last.x:,.0f}"
            )
        for basic, structured in (("coordp", "s_coordp"), ("train", "s_train")):
            slow = curve(results, "members", "rtt_ms", protocol=basic, **where)
            quick = curve(results, "members", "rtt_ms", protocol=structured, **where)
            kept += [a.y > b.y for a, b in zip(slow, quick, strict=True)]
        found.append(
            Finding(
                f"The structured protocols stay quicker with {what}.",
                judged(kept),
                "; ".join(told) + ".",
                kind=OURS,
            )
        )
    return found


# --- §6: load and trigger -------------------------------------------------------------------------


def load_findings(results: Results) -> list[Finding]:
    found = []
    for members in values(results, "members"):
        told, grows = [], []
        for protocol in PROTOCOLS:
            spots = curve(results, "busy", "rtt_ms", members=members, protocol=protocol)
            if not spots:  # too many messages in so large a tree
                continue
            grows += [spots[-1].y > spots[0].y]
            told.append(
                f"{protocol} {spots[0].y:,.1f} to {spots[-1].y:,.1f} ms"
                f" ({spots[-1].y / spots[0].y:.1f} times)"
            )
        rates = curve(results, "busy", "rate", members=members, protocol="s_coordp")
        found.append(
            Finding(
                f"Data traffic makes rounds longer ({members:,} members).",
                judged(grows),
                f"From no data to r = {rates[-1].y:.1f} messages a second from each member, which"
                f" keep processors {100 * rates[-1].x:.0f} % busy: {', '.join(told)}.",
                claim="Data traffic makes rounds longer.",
            )
        )
    return found


def trigger_findings(results: Results) -> list[Finding]:
    found = []
    for loss in values(results, "loss"):
        lost = f"{100 * loss:g} % of copies lost" if loss else "nothing lost"
        found += [
            _rounds(results, loss, lost),
            _too_large(results, loss, lost),
            _printed(results, loss, lost),
            _mended(results, loss, lost),
            _measured_at_run_time(results, loss, lost),
        ]
    return found


def _rounds(results: Results, loss: float, lost: str) -> Finding:
    """Only for an X with which no round begins at once after another."""
    said = {spot.x: spot.y for spot in by_limit(results, "rounds_formula", loss=loss)}
    meanwhile = {spot.x: spot.y for spot in by_limit(results, "meanwhile", loss=loss)}
    spots = [
        spot
        for spot in by_limit(results, "rounds", loss=loss)
        if spot.x in said and spot.x > 2 * meanwhile[spot.x]
    ]
    ends = "; ".join(
        f"X = {spot.x:g}: {spot.y:.1f} rounds, K/(αX) = {said[spot.x]:.1f}"
        for spot in (spots[0], spots[-1])
    )
    return Finding(
        f"T(X) = K/(αX) rounds are needed ({lost}).",
        judged([abs(s.y - said[s.x]) <= max(1, NEAR * said[s.x]) for s in spots]),
        f"{ends} (with the α of each run; taken as agreeing: within {100 * NEAR:.0f} %, or one"
        " round).",
        claim="T(X) = K/(αX) rounds are needed.",
    )


def _too_large(results: Results, loss: float, lost: str) -> Finding:
    stops = by_limit(results, "stops", loss=loss)
    stable = by_limit(results, "time_to_stable_ms", loss=loss)
    rounds = [spot for spot in by_limit(results, "rounds", loss=loss) if spot.y]
    return Finding(
        f"A large X makes senders stop, a small one begins rounds too often; a smaller time to"
        f" stable takes a smaller X ({lost}).",
        judged(
            [
                stops[0].y < stops[-1].y,
                rounds[0].y > rounds[-1].y,
                stable[0].y < stable[-1].y,
            ]
        ),
        f"X = {stable[0].x:g}: {rounds[0].y:.0f} rounds, {stops[0].y:.1f} stops of a member,"
        f" {stable[0].y:.0f} ms to stable; X = {stable[-1].x:g}: {rounds[-1].y:.0f} rounds,"
        f" {_at(results, 'stops', loss, stable[-1].x):.1f} stops, {stable[-1].y:.0f} ms.",
        claim="A large X makes senders stop, a small one begins rounds too often.",
    )


def _printed(results: Results, loss: float, lost: str) -> Finding:
    printed = printed_limit(results, loss)
    above = [spot for spot in by_limit(results, "stable_share", loss=loss) if spot.x > BUFFER]
    stuck = ", ".join(f"{100 * spot.y:.0f} %" for spot in above)
    near = max(spot.x for spot in by_limit(results, "stops", loss=loss) if spot.x <= printed)
    stops, first = (_at(results, measure, loss, near) for measure in ("stops", "first_stops"))
    return Finding(
        f"The best X is the greater of g − rf and (g − 2rf)/(1 − α) ({lost}).",
        judged([printed <= BUFFER, stops == 0]),
        f"That is X = {printed:.0f} for a buffer of g = {BUFFER}."
        + (
            f" No buffer reaches an X above g: no round ever begins, all senders stop for good, and"
            f" {stuck} of the messages become stable (errata STAB-6)."
            if printed > BUFFER
            else " With α = 1 the second bound does not apply, and the text says g − rf. With"
            f" X = {near:g}, the largest one tried that is no greater, the first member stops"
            f" {first:.1f} times and a member on average {stops:.1f} times: the best is one with"
            " which nobody stops, and the formula knows the first member's buffer only."
        ),
        claim="The best X is the greater of g − rf and (g − 2rf)/(1 − α).",
    )


def _mended(results: Results, loss: float, lost: str) -> Finding:
    limit, best = mended_limit(results, loss), best_measured(results, loss)
    below = [s.y == 0 for s in by_limit(results, "first_stops", loss=loss) if s.x < limit]
    above = [
        s.y > 0 for s in by_limit(results, "first_stops", loss=loss) if limit + 1 < s.x <= BUFFER
    ]
    others = "none of those tried" if best is None else f"X ≤ {best:g}"
    near = max(s.x for s in by_limit(results, "alpha", loss=loss) if s.x <= limit)
    sent = RATE * _at(results, "round_ms", loss, near) / 1e3
    return Finding(
        f"Mended: it is the lesser of the two, and the first member stops above it only ({lost}).",
        judged([*below, *above]),
        f"X = {limit:.0f} with rf = {sent:.1f} and α = {_at(results, 'alpha', loss, near):.2f}. The"
        " formula knows the first member's buffer only; farther members hear later, and all go on"
        f" without a stop with {others}.",
        kind=OURS,
    )


def _measured_at_run_time(results: Results, loss: float, lost: str) -> Finding:
    def chosen(measure: str) -> float:
        return curve(results, "limit", measure, loss=loss, limit=MEASURED_LIMIT)[0].y

    return Finding(
        f"Where every member measures its own X and may ask for a round ({lost}).",
        MEASURED,
        f"{chosen('rounds'):.0f} rounds, {chosen('stops'):.1f} stops of a member, who waits for"
        f" {100 * chosen('stopped_share'):.2f} % of the time, {chosen('time_to_stable_ms'):.0f} ms"
        f" to stable, {100 * chosen('stable_share'):.0f} % of all messages stable in the end.",
        kind=OURS,
    )


def _at(results: Results, measure: str, loss: float, x: float) -> float:
    return next(s.y for s in by_limit(results, measure, loss=loss) if s.x == x)


def _times(results: Results, measure: str, basic: str, structured: str) -> list[Spot]:
    """How many times more the basic protocol takes, by n."""
    less = {spot.x: spot.y for spot in complete(results, measure, structured)}
    return [Spot(s.x, s.y / less[s.x], 0.0) for s in complete(results, measure, basic)]


def _grows(spots: Sequence[Spot]) -> bool:
    return spots[-1].y > spots[0].y


def _members(spots: Sequence[Spot]) -> str:
    return f"n = {', '.join(f'{spot.x:,.0f}' for spot in spots)}:"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
