"""What [GS] §5 says about changes of groups and about failures, beside what was measured."""

from ordercast.pipeline.sweeps.results import ResultRow, Results
from ordercast.studies.gs.changes import BUILDERS
from ordercast.studies.gs.failures import ANY, DOWN, INNER, LEAF
from ordercast.studies.reproduction import MEASURED, OURS, Finding, Spot, curve, judged, values
from ordercast.studies.wording import means, places, span, with_intervals

_NONE_SEEN = 3.0  # of n cases: the share is below 3/n, by 95 %
LONG = 2.0  # times the mean delay of a message: a longer stop is a long one
ALIKE = 1.25  # times as much, at most: what still counts as the same cost
RARELY = 0.01  # of the deliveries or crashes, at most: what still counts as infrequent
ROUGHLY = 1.1  # times the delay, at most: "roughly the same"
CONSIDERABLY = 1.5  # times the delay, at least


def change_findings(results: Results) -> list[Finding]:
    def of(measure: str, protocol: str = "propagation") -> list[Spot]:
        return curve(results, "sites", measure, protocol=protocol)

    frames, paper, commit = of("frames"), of("paper_messages"), of("commit_messages")
    took, paper_ms, commit_ms = of("change_ms"), of("paper_ms"), of("commit_ms")
    stopped, delay = of("stopped_ms"), of("delay_ms")
    at = f"{places(frames)} sites:"
    kinds = "; ".join(
        f"{words} {means(of(f'frames_{name}'))}"
        for name, words in (
            ("wish", "the wish"), ("log", "the voters' log"), ("feed", "records to sites"),
            ("close", "Close"), ("report", "reports"),
        )
    )  # fmt: skip
    other = {name: of(name, "centralized") for name in ("frames", "change_ms", "paper_ms")}
    return [
        Finding(
            "A change of the graph takes no commit among all sites: a Close and an Open for each.",
            judged([a.y <= b.y for a, b in zip(frames, paper, strict=True)]),
            f"{at} ours takes {means(frames)} frames; the paper's way would take {means(paper)},"
            f" a commit {means(commit)}. Ours by kind: {kinds}. Every site reports what it has"
            " closed, again with each sign of life until `Finish` (errata, replaced in [GS]).",
        ),
        Finding(
            "Close and Open are quicker than a commit among all sites.",
            judged(
                [max(a.y, b.y) < c.y for a, b, c in zip(took, paper_ms, commit_ms, strict=True)]
            ),
            f"{at} ours took {with_intervals(took, 0)} ms from the wish until the last site had"
            f" opened (voters' frames cost no P in the simulator), a commit {means(commit_ms)} ms;"
            f" computed, the paper's Close and Open take {means(paper_ms)} ms. Judged are both, at"
            " each number of sites.",
        ),
        Finding(
            "Messages are not held up for long by a change.",
            judged([a.y <= LONG * b.y for a, b in zip(stopped, delay, strict=True)]),
            f"{at} from its Close to its Open a site delivers nothing for"
            f" {with_intervals(stopped, 0)} ms on average, at most {means(of('stopped_most_ms'))};"
            f" a message took {means(delay, 1)} ms before (long: more than {LONG:g} times that).",
        ),
        Finding(
            "The centralized solution has the same cost of setting up.",
            judged(
                [
                    1 / ALIKE <= a.y / b.y <= ALIKE
                    for name in other
                    for a, b in zip(of(name), other[name], strict=True)
                ]
            ),
            f"{at} centralized took {means(other['frames'])} frames and"
            f" {means(other['change_ms'])} ms, propagation {means(frames)} and {means(took)} ms;"
            f" by the paper's way {means(other['paper_ms'])} and {means(paper_ms)} ms (the same:"
            f" at most {ALIKE:g} times as much).",
        ),
        Finding(
            "Frames of a change, for each site that it concerns.",
            MEASURED,
            "; ".join(
                f"{protocol} {means(_per_site(results, protocol), 1)}" for protocol in BUILDERS
            ) + f" ({at[:-1]}); the paper's way 2.",
            kind=OURS,
        ),
    ]  # fmt: skip


def _per_site(results: Results, protocol: str) -> list[Spot]:
    frames = curve(results, "sites", "frames", protocol=protocol)
    sites = curve(results, "sites", "sites_changed", protocol=protocol)
    return [Spot(a.x, a.y / b.y, 0.0) for a, b in zip(frames, sites, strict=True)]


def crash_curve(results: Results, measure: str, way: str, hit: str = ANY) -> list[Spot]:
    """Against the number of crashes, at the lowest rate."""
    rate = min(values(results, "rate"))
    return curve(results, "crashes", measure, way=way, hit=hit, rate=rate)


def failure_findings(results: Results) -> list[Finding]:
    return [
        *_non_atomic(results),
        *_atomic(results),
        *_failure_free(results),
    ]


def _non_atomic(results: Results) -> list[Finding]:
    rows = [row for row in results.where(measure="annulled_share", way="non_atomic")
            if row.parameters["crashes"]]  # fmt: skip
    annulled = [row.mean or 0.0 for row in rows]
    shares = results.where(measure="rollback_share", way="non_atomic")
    rolled = [row.mean or 0.0 for row in shares]
    elsewhere = [row.mean or 0.0 for row in results.where(measure="wrong_elsewhere")]
    crashed = sum(row.runs * row.parameters["crashes"] * row.parameters["tables"] for row in rows)
    below = (
        f": a share below {100 * _NONE_SEEN / crashed:.1f} %, by 95 %" if not any(rolled) else ""
    )
    busiest = max(values(results, "rate"))
    (most,), (of_crashes,) = (
        [row for row in each if row.parameters["rate"] == busiest] for each in (rows, shares)
    )
    fewer = [row.mean or 0.0 for row in shares if row.parameters["rate"] != busiest]
    blocked = crash_curve(results, "blocked_share", "non_atomic")
    crashes = places(blocked)
    return [
        Finding(
            "Non-atomic deliveries are infrequent.",
            judged([each <= RARELY for each in (*annulled, *rolled)]),
            f"Annulled are {100 * max(annulled):.3f} % of the deliveries at most, and"
            f" {_mean_percent(most, 3)} at {busiest} messages a second with"
            f" {most.parameters['crashes']} crashes of inner sites; there a crash made its site"
            f" annul something in {_mean_percent(of_crashes, 1)} of the cases, with fewer messages"
            f" in {100 * min(fewer):.1f} to {100 * max(fewer):.1f} % ({crashed:,} crashes{below})."
            f" Infrequent: at most {100 * RARELY:g} %, of the deliveries and of the crashes.",
        ),
        Finding(
            "Only a failed site may have delivered in the wrong order.",
            judged([each == 0 for each in elsewhere]),
            f"Sites that annulled deliveries without having crashed or been excluded:"
            f" {sum(elsewhere):.0f}.",
        ),
        Finding(
            "Delivery goes on after the recovery, although the site is still down.",
            judged([spot.y <= RARELY for spot in blocked]),
            f"Of what others sent to others while a site was down, {_percent(blocked)} came only"
            f" after its return ({crashes} crashes, each of {DOWN / 1e9:g} s): a second crash in"
            " the recovery of the first makes it begin anew.",
        ),
    ]


def _atomic(results: Results) -> list[Finding]:
    blocked = {way: crash_curve(results, "blocked_share", way)
               for way in ("blocking", "two_phase", "centralized")}  # fmt: skip
    (leaf,) = crash_curve(results, "blocked_share", "blocking", LEAF)
    (inner,) = crash_curve(results, "blocked_share", "blocking", INNER)
    (two_leaf,) = crash_curve(results, "blocked_share", "two_phase", LEAF)
    (two_inner,) = crash_curve(results, "blocked_share", "two_phase", INNER)
    crashes = places(blocked["blocking"])
    calm = {way: crash_curve(results, "delay_mean_ms", way)[0].y
            for way in ("centralized", "committed_centre", "blocking", "committed")}  # fmt: skip
    pairs = list(zip(blocked["blocking"], blocked["two_phase"], strict=True))
    return [
        Finding(
            "If a leaf fails, the other sites in its groups can continue.",
            judged([leaf.y <= RARELY]),
            f"{100 * leaf.y:.1f} % of the deliveries among others waited for the leaf.",
        ),
        Finding(
            "If a non-leaf site fails, the sites that it propagates to must block.",
            judged([inner.y > RARELY]),
            f"{100 * inner.y:.0f} ± {100 * inner.ci:.0f} % of the deliveries among others waited.",
        ),
        Finding(
            "Blocking propagation provides the same reliability as two-phase.",
            judged([ours.y <= theirs.y for ours, theirs in pairs] + [leaf.y <= two_leaf.y]),
            f"Blocked deliveries among others at {crashes} crashes: propagation"
            f" {_percent(blocked['blocking'])}, two-phase {_percent(blocked['two_phase'])},"
            f" centralized {_percent(blocked['centralized'])}. With a leaf's crash two-phase blocks"
            f" {100 * two_leaf.y:.0f} %, with an inner site's {100 * two_inner.y:.0f} %: every"
            " member has to answer. (Judged is whether propagation blocks no more: less counts as"
            " the same.)",
        ),
        Finding(
            "Committing each message in the centralized solution increases the delay considerably.",
            judged([calm["committed_centre"] >= CONSIDERABLY * calm["centralized"]]),
            f"Without a crash: centralized {calm['centralized']:.1f} ms, and"
            f" {calm['committed_centre']:.1f} ms if only what is stored everywhere is delivered;"
            f" propagation {calm['blocking']:.1f} and {calm['committed']:.1f} ms (by rounds of"
            " stability, not by a token).",
        ),
    ]


def _failure_free(results: Results) -> list[Finding]:
    def calm(measure: str, way: str) -> float:
        return crash_curve(results, measure, way)[0].y

    ways = ("non_atomic", "blocking")
    ratios = [calm("delay_mean_ms", way) / calm("bare_delay_ms", way) for way in ways]
    extra = [calm("frames_control", way) for way in ways]
    return [
        Finding(
            "While nothing fails, no additional messages are sent.",
            judged([each == 0 for each in extra]),
            f"Per message {calm('frames_data', 'non_atomic'):.1f} frames carry data, and"
            f" {span(extra, 1)} are acknowledgements and rounds of stability: without them nobody"
            " knows when a message may be forgotten, or must be sent again. They become fewer per"
            " message the more is sent (`gs-load`).",
        ),
        Finding(
            "While nothing fails, the reliable version performs roughly as the unreliable one.",
            judged([ratio <= ROUGHLY for ratio in ratios]),
            f"Mean delay with all control frames {calm('delay_mean_ms', 'non_atomic'):.1f} ms,"
            f" without them {calm('bare_delay_ms', 'non_atomic'):.1f} ms"
            f" ({span(ratios, 2)} times; roughly the same: at most {ROUGHLY:g}).",
        ),
    ]


def _mean_percent(row: ResultRow, digits: int) -> str:
    mean, ci = (f"{100 * (value or 0.0):.{digits}f}" for value in (row.mean, row.ci95))
    return f"{mean} ± {ci} %"


def _percent(spots: list[Spot]) -> str:
    return ", ".join(f"{100 * spot.y:.1f}" for spot in spots) + " %"
