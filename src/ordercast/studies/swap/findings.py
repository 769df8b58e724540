"""What [SWAP] says of latency and of traffic, held against what was measured."""

from ordercast.pipeline.sweeps.results import Results
from ordercast.studies.reproduction import OURS, Finding, Spot, curve, judged
from ordercast.studies.swap.figures import NAMES, ranked
from ordercast.studies.swap.runs import GROUPS_BELOW, ONE, PROTOCOLS_OF_SWAP, SHAPES, TURNS
from ordercast.studies.wording import places, with_intervals

_PAIRS = (("arrow", "arrow_counting"), ("combining", "combining_counting"))
_NEVER_HIGHER = 1e-6  # hops: rounding
_HOP = 0.05  # hops: within one instant of each other at every hop


def latency_findings(results: Results) -> list[Finding]:
    return [
        *(_lower(results, swap, count, what) for swap, count in _PAIRS
          for what in ("known_hops", "delivered_hops")),
        _one(results),
        _there_and_back(results),
        _diameter(results),
        _hybrid(results),
        _groups_below(results),
    ]  # fmt: skip


def _of(results: Results, protocol: str, measure: str, shape: str) -> list[Spot]:
    return curve(results, "requests", measure, protocol=protocol, shape=shape)


def _lower(results: Results, swap: str, count: str, what: str) -> Finding:
    """Errata SWAP-4: "always lower" is "never higher"."""
    below, told = [], []
    higher = 0
    for shape in SHAPES:
        ours, theirs = _of(results, swap, what, shape), _of(results, count, what, shape)
        for a, b in zip(ours, theirs, strict=True):
            if a.x > 1:
                below.append(a.y < b.y - _NEVER_HIGHER)
            higher += a.y > b.y + _HOP
        told.append(
            f"{shape}, {places(ours)} at once: {with_intervals(ours, 2)} hops against"
            f" {with_intervals(theirs, 2)}"
        )
    end = "known" if what == "known_hops" else "delivered everywhere"
    return Finding(
        f"With concurrent requests {NAMES[swap]} has lower latency than {NAMES[count]}, until"
        f" {end}.",
        judged(below),
        f"Lower at {sum(below)} of {len(below)} points, higher at {higher}. {'; '.join(told)}.",
    )


def _one(results: Results) -> Finding:
    pairs = [
        (_of(results, "arrow", what, shape)[0], _of(results, "arrow_counting", what, shape)[0])
        for shape in SHAPES
        for what in ("known_hops", "delivered_hops")
    ]
    return Finding(
        "A request alone costs the same with arrow and with counting along it.",
        judged([abs(a.y - b.y) <= _HOP for a, b in pairs]),
        "; ".join(f"{a.y:.2f} and {b.y:.2f} hops" for a, b in pairs)
        + f" ({', '.join(SHAPES)}; known, delivered).",
    )


def _there_and_back(results: Results) -> Finding:
    pairs = [
        (
            _of(results, "combining", "known_hops", shape)[0],
            _of(results, "combining_counting", "known_hops", shape)[0],
        )
        for shape in SHAPES
    ]
    return Finding(
        "With combining, a number takes the way to the root and back, a predecessor one way.",
        judged([abs(b.y - 2 * a.y) <= _HOP * max(1.0, b.y) for a, b in pairs]),
        "One request: " + "; ".join(f"{a.y:.2f} and {b.y:.2f} hops" for a, b in pairs)
        + f" ({', '.join(SHAPES)}).",
    )  # fmt: skip


def _diameter(results: Results) -> Finding:
    far, told = [], []
    for shape in SHAPES:
        most = _of(results, "arrow", "links_max", shape)
        wide = curve(results, "requests", "diameter", shape=shape)
        far += [spot.y for spot in _of(results, "arrow", "beyond_diameter", shape)]
        told.append(f"{shape} {max(s.y for s in most):.1f} of {max(s.y for s in wide):.1f}")
    return Finding(
        "An arrow request crosses at most as many links as the tree's diameter.",
        judged([share == 0 for share in far]),
        f"In every run at {far.count(0)} of {len(far)} points; a request crosses more in at most"
        f" {100 * max(far):.0f} % of the runs of a point. The longest way, mean over the runs of a"
        f" point: {'; '.join(told)}.",
    )


def _hybrid(results: Results) -> Finding:
    told, lower = [], []
    for shape in SHAPES:
        ours = _of(results, "hybrid", "known_hops", shape)
        both = _of(results, "arrow", "known_hops", shape), _of(results, "combining", "known_hops",
                                                              shape)  # fmt: skip
        lower += [a.y <= max(b.y, c.y) + _HOP for a, b, c in zip(ours, *both, strict=True)]
        told.append(f"{shape} {with_intervals(ours, 2)}")
    return Finding(
        "The hybrid is never slower than the slower of the two that it is made of.",
        judged(lower),
        f"Hops until known: {'; '.join(told)}.",
        kind=OURS,
    )


def _groups_below(results: Results) -> Finding:
    told, later = [], []
    for shape in SHAPES:
        ours, theirs = (_of(results, p, "known_hops", shape) for p in (GROUPS_BELOW, "hybrid"))
        later.append(ours[0].y >= theirs[0].y - _NEVER_HIGHER)
        told.append(
            f"{shape}, {places(ours)} at once: {with_intervals(ours, 2)} hops against"
            f" {with_intervals(theirs, 2)}"
        )
    return Finding(
        "With arrow groups in place of lower nodes a request alone is known no sooner: a mark and"
        " its answer cross each group behind it.",
        judged(later),
        f"{NAMES[GROUPS_BELOW]} against {NAMES['hybrid']}, until known: {'; '.join(told)}.",
        kind=OURS,
    )


def locality_findings(results: Results) -> list[Finding]:
    def of(protocol: str, measure: str, senders: str) -> float:
        rows = results.where(measure=measure, protocol=protocol, senders=senders)
        return (rows[0].mean or 0.0) if rows else 0.0

    def listed(measure: str, senders: str) -> str:
        return ", ".join(f"{NAMES[p]} {of(p, measure, senders):.2f}" for p in PROTOCOLS_OF_SWAP)

    def busiest(senders: str) -> str:
        return ", ".join(
            f"{NAMES[p]} {ranked(results, senders, p)[0].y:.2f}"
            for p in PROTOCOLS_OF_SWAP if ranked(results, senders, p)
        )  # fmt: skip

    return [
        _silent(results, f"{listed('requests_sent', ONE)}; the busiest link: {busiest(ONE)}."),
        Finding(
            "In the combining tree all traffic passes the root, even with one sender.",
            judged([of("combining", "through_root", ONE) >= 1 - 1e-9]),
            f"Share of the messages whose requests pass it: {listed('through_root', ONE)}.",
        ),
        Finding(
            "Where two subtrees take turns, all of arrow's traffic passes the node between them.",
            judged([of("arrow", "through_root", TURNS) >= 1 - 1e-9]),
            f"Share of the messages whose requests pass the root: {listed('through_root', TURNS)};"
            f" the busiest link: {busiest(TURNS)}; the busiest site:"
            f" {listed('busiest_site', TURNS)}.",
        ),
        Finding(
            "An arrow set in place of the root relieves it.",
            judged(
                [
                    of("hybrid", "through_root", ONE) < of("combining", "through_root", ONE),
                    of("hybrid", "busiest_site", TURNS) < of("combining", "busiest_site", TURNS),
                ]
            ),
            "While one subtree sends, nothing passes the root any more; two that take turns pass it"
            " as before, and the way is longer. "
            f"Requests per message: {listed('requests_sent', ONE)} with one sender,"
            f" {listed('requests_sent', TURNS)} in turn.",
        ),
        Finding(
            "For messages one after the other, arrow groups in place of lower nodes save nothing.",
            judged(
                [
                    of(GROUPS_BELOW, measure, senders) >= of("hybrid", measure, senders) - 1e-9
                    for measure in ("requests_sent", "busiest_site")
                    for senders in (ONE, TURNS)
                ]
            ),
            f"{NAMES[GROUPS_BELOW]} against {NAMES['hybrid']}: requests, marks and answers per"
            " message "
            + "; ".join(
                f"{of(GROUPS_BELOW, 'requests_sent', senders):.2f} against"
                f" {of('hybrid', 'requests_sent', senders):.2f}, at the busiest site"
                f" {of(GROUPS_BELOW, 'busiest_site', senders):.2f} against"
                f" {of('hybrid', 'busiest_site', senders):.2f} ({senders})"
                for senders in (ONE, TURNS)
            )
            + ".",
            kind=OURS,
        ),
    ]


def _silent(results: Results, of_all: str) -> Finding:
    """Only the first message has to find the sink. What avoids the root is traffic as well."""
    (later,) = results.where(measure="requests_later", protocol="arrow", senders=ONE)
    return Finding(
        "With one sender, arrow has no swap-related traffic.",
        judged([later.mean == 0]),
        f"After the first of {later.parameters['messages']} messages, which has to find the sink,"
        f" it sends {later.mean or 0.0:.2f} requests for a message; of all messages: {of_all}",
    )
