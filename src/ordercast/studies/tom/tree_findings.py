"""What [TOM] says of given trees, of rings and of losses: the figures, and verdicts computed from
the results.
"""

from typing import TYPE_CHECKING

from ordercast.pipeline.sweeps.results import Results
from ordercast.studies.figures import (
    MARKERS,
    draw_curve,
    label,
    legend_above,
    log_axis,
    new_figure,
    title,
)
from ordercast.studies.fits import power
from ordercast.studies.reproduction import MEASURED, OURS, Finding, Spot, curve, judged, values
from ordercast.studies.tom.figures import COLOURS, NAMES
from ordercast.studies.tom.findings import BETTER
from ordercast.studies.tom.given_tree import BUILDERS
from ordercast.studies.tom.processing import HOST_PROTOCOLS
from ordercast.studies.wording import means, places

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ONE_LINK = 1.1  # links a hop, at most: what still counts as one
INCREASES = 0.5  # a power of the hosts, more than: what counts as an increase
_LINES = {"uniform": "-", "local": "--"}


def _given(results: Results, measure: str, protocol: str, where: str) -> list[Spot]:
    return curve(results, "sites", measure, protocol=protocol, where=where)


def given_figure(results: Results) -> "Figure":
    """Stretch, delay and links crossed; groups from anywhere and local ones."""
    figure, axes = new_figure(13.5, 5.0, 1, 3)
    columns = (("stretch", "A logical hop", "links of the network"),
               ("delay_last_hops", "Until the last member has it", "links"),
               ("links", "Crossings of links, with multicast", "per message"))  # fmt: skip
    for ax, (measure, head, unit) in zip(axes, columns, strict=True):
        for place, protocol in enumerate(BUILDERS):
            for where, line in _LINES.items():
                spots = _given(results, measure, protocol, where)
                name = f"{NAMES[protocol]}, {where}"
                draw_curve(ax, spots, name, COLOURS[protocol], MARKERS[place], line)
        title(ax, head)
        label(ax, "hosts in the session", unit)
        log_axis(ax, "x", values(results, "sites"))
        ax.set_ylim(bottom=0)
    legend_above(figure, axes[0], columns=3)
    return figure


def given_findings(results: Results) -> list[Finding]:
    found = []
    for where in _LINES:
        of = {
            measure: {p: _given(results, measure, p, where) for p in BUILDERS}
            for measure in ("stretch", "delay_last_hops", "links", "transmissions", "direct_hops")
        }
        at = f"{where} groups, n = {places(of['stretch']['tom'])}:"

        def told(measure: str, of: dict[str, dict[str, list[Spot]]] = of) -> str:
            return "; ".join(f"{NAMES[p]} {means(of[measure][p], 1)}" for p in BUILDERS)

        stretch, last = of["stretch"], of["delay_last_hops"]
        others = [p for p in BUILDERS if p != "tom"]
        found += [
            Finding(
                f"A logical hop of MP and MG may be several links ({where} groups).",
                judged([s.y > ONE_LINK for p in others for s in stretch[p]]),
                f"{at} links a hop, mean: {told('stretch')}.",
                claim="A logical hop of MP and MG may be several links.",
            ),
            Finding(
                f"TOM works on the tree that is there: its hops are links ({where} groups).",
                judged([s.y <= ONE_LINK for s in stretch["tom"]]),
                f"{at} links a hop of headers: {means(stretch['tom'], 2)} (one: at most"
                f" {ONE_LINK:g}).",
                claim="TOM works on the tree that is there: its hops are links.",
            ),
            Finding(
                f"{BETTER[:-1]}: on a given tree, {where} groups.",
                judged([
                    a.y <= b.y for p in others
                    for a, b in zip(of["transmissions"]["tom"], of["transmissions"][p], strict=True)
                ]),
                f"{at} transmissions: {told('transmissions')}. A tree that is given does not know"
                " the groups: the members are below many of its nodes, and each of these forwards"
                " the final header (TOM-3).",
                claim=BETTER,
            ),
            Finding(
                f"So a message has less far to go ({where} groups).",
                judged([
                    a.y <= b.y for p in others for a, b in zip(last["tom"], last[p], strict=True)
                ]),
                f"{at} links until the last member has it: {told('delay_last_hops')}; straight to"
                f" the members it would be {means(of['direct_hops']['tom'], 1)} on average.",
                kind=OURS,
            ),
            Finding(
                f"What it costs in the network ({where} groups).",
                judged([
                    a.y <= b.y for p in others
                    for a, b in zip(of["links"]["tom"], of["links"][p], strict=True)
                ]),
                f"{at} crossings of links: {told('links')}."
                " TOM sends the body once and its final headers down the whole way (TOM-3).",
                kind=OURS,
            ),
        ]  # fmt: skip
    return found


def rings_figure(results: Results) -> "Figure":
    """Against the rate in a session of middle size, and against hosts at the lowest rate."""
    figure, axes = new_figure(13.5, 4.8, 1, 3)
    hosts, rates = values(results, "sites"), values(results, "rate")
    panels = (("rate", "frames", {"sites": hosts[-1]}, f"Frames per message, {hosts[-1]} hosts"),
              ("rate", "delay_mean_ms", {"sites": hosts[-1]}, f"Mean delay, {hosts[-1]} hosts"),
              ("sites", "delay_mean_ms", {"rate": rates[0]},
               f"Mean delay, {rates[0]} messages a second"))  # fmt: skip
    for ax, (x, measure, held, head) in zip(axes, panels, strict=True):
        for place, protocol in enumerate(HOST_PROTOCOLS):
            spots = curve(results, x, measure, protocol=protocol, **held)
            name = NAMES.get(protocol, protocol)
            draw_curve(ax, spots, name, COLOURS[protocol], MARKERS[place])
        title(ax, head)
        across = "messages a second" if x == "rate" else "hosts in the session"
        label(ax, across, "frames" if measure == "frames" else "ms (P = 1 ms, L = 5 ms)")
        log_axis(ax, "x", values(results, x))
        log_axis(ax, "y")
    legend_above(figure, axes[0], columns=4)
    return figure


def rings_findings(results: Results) -> list[Finding]:
    hosts, rates = values(results, "sites"), values(results, "rate")

    def at_rate(protocol: str, measure: str) -> list[Spot]:
        return curve(results, "rate", measure, protocol=protocol, sites=hosts[-1])

    def by_hosts(protocol: str) -> list[Spot]:
        return curve(results, "sites", "delay_mean_ms", protocol=protocol, rate=rates[0])

    slow = {p: at_rate(p, "delay_mean_ms")[-1].y for p in HOST_PROTOCOLS}
    growth = {p: power(by_hosts(p)) for p in HOST_PROTOCOLS}
    frames = {p: at_rate(p, "frames") for p in HOST_PROTOCOLS}
    few = {p: by_hosts(p)[0].y for p in HOST_PROTOCOLS}
    others = [p for p in HOST_PROTOCOLS if p != "centralized"]
    return [
        Finding(
            "Rings may permit higher concurrency than two-phase and centralized ordering.",
            judged([frames["ring"][-1].y < frames[p][-1].y and slow["ring"] < slow[p]
                    for p in ("two_phase", "centralized")]),
            f"{hosts[-1]} hosts, {rates[0]} to {rates[-1]} messages a second: frames per message "
            + "; ".join(
                f"{NAMES.get(p, p)} {f[0].y:.0f} to {f[-1].y:.0f}" for p, f in frames.items()
            )
            + f"; mean delay at {rates[-1]}: "
            + "; ".join(f"{NAMES.get(p, p)} {ms:.0f} ms" for p, ms in slow.items()) + ".",
        ),
        Finding(
            "The latency of a ring increases in large sessions.",
            judged([growth["ring"] > growth[p] for p in ("two_phase", "centralized", "tom")]
                   + [growth["ring"] > INCREASES]),
            f"At {rates[0]} messages a second, {places(by_hosts('ring'))} hosts: ring"
            f" {means(by_hosts('ring'))} ms; it grows as these powers of the hosts: "
            + ", ".join(f"{NAMES.get(p, p)} {g:.2f}" for p, g in growth.items())
            + " (a site needs P for each copy, so that all of them grow).",
        ),
        Finding(
            "Centralized ordering is reasonable for few hosts, and a bottleneck in large sessions.",
            judged([few["centralized"] <= few[p] for p in others]
                   + [slow["centralized"] >= slow[p] for p in others]),
            f"With {hosts[0]} hosts and {rates[0]} messages a second it takes"
            f" {few['centralized']:.0f}"
            f" ms; with {hosts[-1]} hosts and {rates[-1]} a second {slow['centralized']:.0f} ms."
            " (MP is the same with one group.)",
        ),
    ]  # fmt: skip


def loss_figure(results: Results) -> "Figure":
    figure, axes = new_figure(13.5, 4.8, 1, 3)
    for ax, (measure, head, unit) in zip(
        axes,
        (("busiest", "X: the busiest host", "frames per message, sent and received"),
         ("host_mean", "The mean host", "frames per message, sent and received"),
         ("delay_mean_ms", "Mean delay", "ms (P = 1 ms, L = 5 ms)")),
        strict=True,
    ):  # fmt: skip
        for place, protocol in enumerate(HOST_PROTOCOLS):
            spots = curve(results, "loss", measure, protocol=protocol)
            percents = [Spot(100 * spot.x, spot.y, spot.ci) for spot in spots]
            name = NAMES.get(protocol, protocol)
            draw_curve(ax, percents, name, COLOURS[protocol], MARKERS[place])
        title(ax, head)
        label(ax, "% of frames lost", unit)
    for ax in axes[:2]:
        ax.set_ylim(bottom=0)
    log_axis(axes[2], "y")
    legend_above(figure, axes[0], columns=4)
    return figure


def loss_findings(results: Results) -> list[Finding]:
    return [
        Finding(
            f"{NAMES.get(protocol, protocol)}: processing with losses, which the paper leaves for"
            " later work.",
            MEASURED,
            f"Loss {', '.join(f'{100 * spot.x:g}' for spot in busiest)} %: the busiest host"
            f" handles {means(busiest, 1)} frames per message, the mean host"
            f" {means(curve(results, 'loss', 'host_mean', protocol=protocol), 1)}; a message takes"
            f" {means(curve(results, 'loss', 'delay_mean_ms', protocol=protocol))} ms.",
            kind=OURS,
        )
        for protocol in HOST_PROTOCOLS
        for busiest in [curve(results, "loss", "busiest", protocol=protocol)]
    ]
