"""The picture of a forest: who forwards to whom, which site orders which groups, and which sites
only forward.

A box is a site, the stripe below it has one piece per group that it is in. Dark boxes order groups
(primaries), dashed ones pass on what they are not in (extra sites). With few groups every edge is
a bundle of strands, one per group that travels over it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ordercast.forest.forest import Forest
from ordercast.forest.metrics import Metrics, extra_groups
from ordercast.model.groups import Group, GroupTable, Site
from ordercast.plan.captions import NAME, SMALL, TITLE, headline, short, text_width
from ordercast.plan.colours import INK, PALETTE, PAPER, colour_groups, ink_on
from ordercast.plan.legend import Legend
from ordercast.plan.pages import Page, lay_out
from ordercast.plan.tree_layout import BOX_HEIGHT, Box, Edge

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GREY, WARN = "#9AA5B1", "#B03A2E"
_MARGIN = 0.30
_HEADER = 0.70
_PADDING = 0.08  # between a box's edge and its name
_NARROWEST = 0.36
_STRIPE = 0.05
_AROUND = 0.035  # from a box to the dashed frame of an extra site
_STRAND = 0.034  # from one strand of a bundle to the next
_SLENDEREST = 6.5  # the width of a page, so that title and legend have room


def picture(forest: Forest, table: GroupTable, metrics: Metrics) -> "Figure":
    from matplotlib.figure import Figure

    drawn = _Picture(forest, table)
    width = max(drawn.page.width, _SLENDEREST)
    legend = Legend(drawn.legend_entries(), width)
    height = _HEADER + drawn.page.height + legend.height
    figure = Figure(figsize=(width + 2 * _MARGIN, height + 2 * _MARGIN))
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_xlim(-_MARGIN, width + _MARGIN)
    axes.set_ylim(height + _MARGIN, -_MARGIN)
    axes.axis("off")
    title, measures = headline(forest, table, metrics)
    axes.text(0, 0.05, title, size=TITLE, weight="bold", color=INK, va="center")
    axes.text(0, 0.30, measures, size=NAME, color=INK, va="center")
    drawn.draw(axes, (width - drawn.page.width) / 2, _HEADER)
    legend.draw(axes, _HEADER + drawn.page.height)
    return figure


@dataclass(frozen=True, slots=True)
class _Bundle:
    """Strands from a parent to a child: where the bundle leaves it, and how far they are apart."""

    foot: float  # from the parent's middle to the bundle's
    foot_spacing: float
    head_spacing: float


class _Picture:
    def __init__(self, forest: Forest, table: GroupTable) -> None:
        self.table = table
        self.groups_of: dict[Site, list[Group]] = {site: [] for site in sorted(table.sites)}
        for group in sorted(table.groups):
            for site in table.groups[group]:
                self.groups_of[site].append(group)
        self.primaries = set(forest.primary.values())
        self.extra = extra_groups(forest, table)
        self.carried = _carried(forest, table)
        self.children: dict[Site, list[Site]] = {}
        for site in self.groups_of:
            if (parent := forest.parent[site]) is not None:
                self.children.setdefault(parent, []).append(site)
        trees = [
            self._tree(site)
            for site, groups in self.groups_of.items()
            if groups and forest.parent[site] is None
        ]
        trees.sort(key=len, reverse=True)
        order = [site for tree in trees for site in tree]
        self.colouring = colour_groups(forest, table, order)
        self.widths = {
            site: max(_NARROWEST, text_width(short(site), NAME) + 2 * _PADDING)
            for site in self.groups_of
        }
        self.page = self._lay_out([tree[0] for tree in trees])

    def _tree(self, root: Site) -> list[Site]:
        """The sites of a tree, level by level."""
        found = [root]
        for site in found:
            found.extend(self.children.get(site, ()))
        return found

    def _lay_out(self, roots: Sequence[Site]) -> Page:
        notes = {site: text_width(self._note(site), SMALL) + 0.08 for site in self.extra}
        return lay_out(roots, self.children, self.widths, notes)

    def _note(self, site: Site) -> str:
        groups = self.extra[site]
        text = f"extra for {', '.join(groups)}"
        return text if self.colouring.each_group and len(text) <= 28 else f"+{len(groups)}"

    def legend_entries(self) -> list[tuple[str, str, str]]:
        """Kind of swatch, its colour, its meaning."""
        if self.colouring.each_group:
            entries = [("primary", INK, "orders groups (their primary)")]
        else:
            entries = [("coloured", PALETTE[0], "orders the groups of its colour (their primary)")]
        if len(self.primaries) < len(self.groups_of):
            entries.append(("site", INK, "orders none"))
        if self.extra:
            counted = any(self._note(site).startswith("+") for site in self.extra)
            number = ", +n: how many" if counted else ""
            entries.append(("extra", WARN, f"extra site: passes on groups it is not in{number}"))
        if any(box.stub for box in self.page.boxes):
            entries.append(("stub", INK, "continues where its name comes again"))
        if idle := [site for site, groups in self.groups_of.items() if not groups]:
            entries.append(("none", INK, f"in no group, not drawn: {len(idle):,}"))
        entries.append(("break", "", ""))
        if self.colouring.repeats:
            whose = (
                "one piece per group that a site is in, in the colour of the site that orders it"
            )
            entries.append(("stripes", "", f"{whose} (colours repeat after {len(PALETTE)})"))
        entries += [("stripe", colour, text) for colour, text in self.colouring.legend]
        return entries

    def draw(self, axes: "Axes", dx: float, dy: float) -> None:
        bundles = self._bundles() if self.colouring.each_group else {}
        for link in self.page.links:
            self._draw_link(axes, link.moved(dx, dy), bundles.get(link.child))
        for box in self.page.boxes:
            self._draw_box(axes, box.moved(dx, dy))

    def _bundles(self) -> dict[Site, _Bundle]:
        """The strands to each child, side by side where they leave the parent."""
        below: dict[Site, list[Edge]] = {}
        for link in self.page.links:
            if not link.stacked:
                below.setdefault(link.parent, []).append(link)
        bundles: dict[Site, _Bundle] = {}
        for parent, links in below.items():
            strands = sum(len(self.carried[link.child]) for link in links)
            spacing = min(_STRAND, self.widths[parent] / strands)
            x = -strands / 2 * spacing
            for link in sorted(links, key=lambda link: link.points[-1]):
                count = len(self.carried[link.child])
                bundles[link.child] = _Bundle(
                    foot=x + count * spacing / 2,
                    foot_spacing=spacing,
                    head_spacing=min(_STRAND, self.widths[link.child] / count),
                )
                x += count * spacing
        return bundles

    def _draw_link(self, axes: "Axes", link: Edge, bundle: _Bundle | None) -> None:
        xs, ys = zip(*link.points, strict=True)
        groups = self.carried[link.child]
        if bundle is None:
            thickness = 0.9 if link.stacked else 0.7 + 0.25 * min(12, len(groups))
            axes.plot(xs, ys, color=GREY, linewidth=thickness, snap=link.stacked, zorder=1)
            return
        for i, group in enumerate(groups):
            place = i - (len(groups) - 1) / 2
            foot = xs[0] + bundle.foot + place * bundle.foot_spacing
            inside = link.child in self.table.groups[group]
            axes.plot(
                [foot, xs[1] + place * bundle.head_spacing],
                ys,
                color=self.colouring.of_group[group],
                linewidth=1.9,
                linestyle="-" if inside else (0, (2.2, 1.2)),
                solid_capstyle="butt",
                zorder=1,
            )

    def _draw_box(self, axes: "Axes", box: Box) -> None:
        from matplotlib.patches import FancyBboxPatch, Polygon, Rectangle

        site, left = box.site, box.x - box.width / 2
        height = BOX_HEIGHT - _STRIPE - 0.015
        primary, extra = site in self.primaries, site in self.extra
        filling = self.colouring.of_site.get(site, INK) if primary else PAPER
        rounding = 0.05
        axes.add_patch(
            FancyBboxPatch(
                (left + rounding, box.y + rounding),
                box.width - 2 * rounding,
                height - 2 * rounding,
                boxstyle=f"round,pad={rounding}",
                facecolor=filling,
                edgecolor=INK,
                linewidth=1.0,
                zorder=3,
            )
        )
        if extra:
            around = (left - _AROUND, box.y - _AROUND)
            size = (box.width + 2 * _AROUND, BOX_HEIGHT + 2 * _AROUND)
            dashes = (0, (3, 1.6))
            axes.add_patch(
                Rectangle(around, *size, fill=False, edgecolor=WARN, lw=1.2, ls=dashes, zorder=3)
            )
        axes.text(
            box.x,
            box.y + height / 2,
            short(site),
            size=NAME,
            color=ink_on(filling),
            ha="center",
            va="center_baseline",
            zorder=4,
            parse_math=False,
        )
        pieces = self._stripe(site)
        piece = box.width / len(pieces)
        for i, colour in enumerate(pieces):
            corner = (left + i * piece, box.y + BOX_HEIGHT - _STRIPE)
            axes.add_patch(Rectangle(corner, piece, _STRIPE, facecolor=colour, lw=0, zorder=3))
        if box.stub:
            y = box.y + BOX_HEIGHT + 0.03
            tip = [(box.x - 0.06, y), (box.x + 0.06, y), (box.x, y + 0.07)]
            axes.add_patch(Polygon(tip, facecolor=GREY, lw=0, zorder=3))
            return
        if extra:
            x, y = box.x + box.width / 2 + _AROUND + 0.04, box.y + height / 2
            axes.text(x, y, self._note(site), size=SMALL, color=WARN, va="center_baseline")

    def _stripe(self, site: Site) -> list[str]:
        colours = [self.colouring.of_group[group] for group in self.groups_of[site]]
        return colours if self.colouring.each_group else sorted(colours)


def _carried(forest: Forest, table: GroupTable) -> dict[Site, list[Group]]:
    """The groups whose messages reach each site from its parent."""
    carried: dict[Site, list[Group]] = {site: [] for site in table.sites}
    for group in sorted(table.groups):
        passed = {forest.primary[group]}
        for member in table.groups[group]:
            site: Site | None = member
            while site is not None and site not in passed:
                passed.add(site)
                carried[site].append(group)
                site = forest.parent[site]
    return carried
