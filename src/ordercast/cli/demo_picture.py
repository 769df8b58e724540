"""The demo as a picture: how many messages each site has delivered, from second to second."""

from collections.abc import Sequence
from math import ceil, sqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ordercast.cli.demo_cluster import DemoTraffic
    from ordercast.history.rows import Delivered

_SHADES = " .:-=+*#"
_COLUMNS = 60


def sketch(deliveries: "Sequence[Delivered]", sent: "DemoTraffic") -> list[str]:
    """A line of characters for each site: the darker, the more deliveries in that moment."""
    times = _times(deliveries)
    begin, end = sent.begun_ns, max(max(found) for found in times.values())
    width = max(1, (end - begin) // _COLUMNS + 1)
    counts = {site: [0] * _COLUMNS for site in times}
    for site, found in times.items():
        for at in found:
            counts[site][min(_COLUMNS - 1, max(0, (at - begin) // width))] += 1
    lines = []
    for site, row in sorted(counts.items()):
        most = max(row)
        shades = "".join(_SHADES[ceil(7 * sqrt(count / most))] for count in row)
        lines.append(f"  {site}  |{shades}|{_mark(site, sent)}")
    seconds = (end - begin) / 1e9
    scale = f"0 s{f'{seconds:.1f} s':>{_COLUMNS - 3}}"
    return [*lines, f"      {scale}"]


def draw_deliveries(deliveries: "Sequence[Delivered]", sent: "DemoTraffic", file: str) -> None:
    """Curves that grow with each delivery, and the time in which the killed site was away."""
    from matplotlib.figure import Figure

    from ordercast.plan.canvas import save, style
    from ordercast.plan.colours import INK, PALETTE

    def since_ns(at: int) -> float:
        return (at - sent.begun_ns) / 1e9

    with style():
        figure = Figure(figsize=(8.4, 4.4), layout="constrained")
        ax = figure.subplots()
        away = (since_ns(sent.killed_ns), since_ns(sent.back_ns))
        ax.axvspan(*away, color="#D55E00", alpha=0.12, lw=0)
        ax.annotate(
            f"{sent.killed} is dead", (sum(away) / 2, 1), xycoords=("data", "axes fraction"),
            xytext=(0, -12), textcoords="offset points", ha="center", color="#D55E00",
        )  # fmt: skip
        for number, (site, times) in enumerate(sorted(_times(deliveries).items())):
            ours = site == sent.killed
            ax.plot(
                [since_ns(at) for at in times], range(1, len(times) + 1), label=site,
                color=PALETTE[number % len(PALETTE)], lw=2.6 if ours else 1.2,
                zorder=3 if ours else 2,
            )  # fmt: skip
        ax.set_xlabel("seconds")
        ax.set_ylabel("messages delivered")
        ax.set_title(f"{sent.sent:,} messages; {sent.killed} is killed and comes back", color=INK)
        ax.legend(loc="upper left", ncols=3, fontsize=8.5, frameon=False)
        save(figure, file)


def _times(deliveries: "Sequence[Delivered]") -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for row in deliveries:
        found.setdefault(row.site, []).append(row.delivered_ns)
    return {site: sorted(times) for site, times in found.items()}


def _mark(site: str, sent: "DemoTraffic") -> str:
    return "  killed, and back" if site == sent.killed else ""
