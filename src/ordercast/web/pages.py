"""The pages as HTML: a shell around a fixed body. Names and titles are escaped here."""

from collections.abc import Sequence
from functools import cache
from html import escape
from importlib.resources import files
from string import Template

TITLES = {
    "cluster": "Cluster",
    "replay": "Replay",
    "witness": "Witness",
    "planner": "Planner",
    "papers": "Papers",
}
_CHARTS = ("cluster",)


def page(name: str, *, subject: str, shown: Sequence[str]) -> str:
    """`shown`: the pages that there are, for the navigation."""
    return Template(_file("shell.html")).substitute(
        title=escape(TITLES.get(name, "Token")),
        page=escape(name),
        subject=escape(subject),
        sheets='<link rel="stylesheet" href="/static/uplot/uPlot.min.css">'
        if name in _CHARTS
        else "",
        scripts=f'<script type="module" src="/static/{escape(name)}.js"></script>',
        nav="".join(_entry(other, other == name) for other in shown),
        main=_file(f"{name}.html"),
    )


def _entry(name: str, here: bool) -> str:
    current = ' aria-current="page"' if here else ""
    return f'<a href="/{name}"{current}>{TITLES[name]}</a>'


@cache
def _file(name: str) -> str:
    return (files("ordercast.web") / "templates" / name).read_text(encoding="utf-8")
