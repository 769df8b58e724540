"""`index.html`: the four papers with their claims and verdicts, each figure beside what its paper
says, and where the measured numbers differ."""

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from ordercast.pipeline.sweeps.results import Results
from ordercast.pipeline.sweeps.units import unit_of
from ordercast.studies.facts import PAPERS, Paper, Section, claims, of_paper, summary
from ordercast.studies.reproduction import CLAIM, INTERVAL, OURS, Reproduction

_MOST_ROWS = 200  # of a table of numbers
_MOST_LISTED = 8  # values of a parameter; of more, the first and the last are told

_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #22313f; background: #fff; margin: 0 auto;
       max-width: 1120px; padding: 1.5rem; }
h1 { font-size: 1.7rem; margin: 0 0 .3rem; }
h2 { font-size: 1.25rem; margin: 2.6rem 0 .2rem; border-top: 1px solid #d5d8dc;
     padding-top: 1.4rem; }
h3 { font-size: .95rem; margin: 1rem 0 .2rem; }
p { margin: .3rem 0 .6rem; max-width: 75ch; }
.small { color: #5d6d7e; font-size: .88rem; }
img { display: block; max-width: 100%; height: auto; margin: .6rem 0; }
table { border-collapse: collapse; margin: .4rem 0; }
th, td { text-align: left; vertical-align: top; padding: .35rem .9rem .35rem 0;
         border-bottom: 1px solid #e5e8e8; }
th { font-weight: 600; font-size: .88rem; }
td.mark { white-space: nowrap; font-weight: 600; }
.agrees { color: #1e7b4d; } .partly { color: #a0620a; } .differs { color: #b03a2e; }
.measured { color: #5d6d7e; }
a { color: #0b5394; }
nav li { margin: .15rem 0; }
.paper { border: 1px solid #d5d8dc; border-radius: 6px; padding: .2rem 1.2rem .8rem;
         margin: 1rem 0; }
.paper h2 { border: 0; margin: .6rem 0 0; padding: 0; font-size: 1.1rem; }
summary { cursor: pointer; color: #0b5394; }
.scroll { overflow-x: auto; }
.numbers td { white-space: nowrap; font-variant-numeric: tabular-nums; }
blockquote { margin: .3rem 0; padding: .1rem 0 .1rem 1rem; border-left: 3px solid #aeb6bf;
             max-width: 75ch; }
@media (max-width: 640px) { td, th { display: block; border: 0; padding: .1rem 0; }
  tr { display: block; border-bottom: 1px solid #e5e8e8; padding: .4rem 0; }
  thead { display: none; } }
@media print { nav, details { display: none; } h2 { break-before: page; } img { max-width: 100%; } }
"""


def headline(sections: Sequence[Section]) -> str:
    """The verdicts on the papers' claims, with those of quick runs apart. Other statements are only
    counted."""
    parts = []
    for is_quick, words in (
        (False, "measured in full"),
        (True, "measured in a quick run, with other parameters"),
    ):
        part = [section for section in sections if bool(section.told.get("quick")) == is_quick]
        if part:
            parts.append(f"The papers’ claims, {words}: {summary(part)}.")
    kinds = [each.kind for section in sections for each in section.findings]
    ours, intervals = kinds.count(OURS), kinds.count(INTERVAL)
    if ours or intervals:
        parts.append(f"Not counted: {ours} of our own, {intervals} on the width of intervals.")
    return " ".join(parts)


def quick_parameters(each: Reproduction) -> str:
    """What a quick run has instead of the parameters of the full one."""
    fewer, full = each.points(True), each.points(False)
    told = []
    for name in dict.fromkeys(name for config in full for name in config):
        few, all_ = _listed(fewer, name), _listed(full, name)
        if few != all_:
            told.append(f"{name} {few or 'not at all'} instead of {all_}")
    runs, more = each.repeats(True).at_least, each.repeats(False).at_least
    if runs != more:
        told.append(f"{runs} runs of each point instead of {more} or more")
    return "; ".join(told)


def _listed(points: Sequence[Mapping[str, Any]], name: str) -> str:
    found = sorted({config[name] for config in points if name in config}, key=_by_number)
    if len(found) > _MOST_LISTED:
        return f"{found[0]} … {found[-1]} ({len(found)} values)"
    return ", ".join(str(value) for value in found)


def _by_number(value: Any) -> tuple[bool, Any]:
    return isinstance(value, str), value


def page(sections: Sequence[Section]) -> str:
    """The page of all sections. A section that was not run shows the command that runs it."""
    done = [section for section in sections if section.told]
    lines = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        "<title>ordercast: the papers' results, redone</title>",
        f"<style>{_STYLE}</style></head><body>",
        "<h1>The papers’ results, redone</h1>",
        "<p>Each figure stands beside what its paper says about it, in our words, and what was"
        f" measured here. {escape(headline(done))} A claim that several figures judge counts"
        " once; <em>partly</em> means at some points and not at others. Bars are 95 % intervals."
        "</p>",
    ]
    for paper in PAPERS:
        lines += _paper(paper, [s for s in sections if of_paper(s.reproduction, paper)])
    beyond = [s for s in sections if not any(of_paper(s.reproduction, paper) for paper in PAPERS)]
    if beyond:
        lines += ['<section class="paper" id="beyond"><h2>Beyond the papers</h2>']
        lines += [*_contents(beyond), "</section>"]
    for section in done:
        lines += _section(section)
    lines.append("</body></html>")
    return "\n".join(lines) + "\n"


def _paper(paper: Paper, sections: Sequence[Section]) -> list[str]:
    """A card: whose paper it is, its figures with their verdicts, and its claims."""
    done = [section for section in sections if section.told]
    about = ", ".join(part for part in (paper.authors, paper.where) if part)
    lines = [
        f'<section class="paper" id="{paper.key.lower()}"><h2>[{paper.key}] {escape(paper.title)}'
        f'</h2><p class="small">{escape(about)}</p>',
        f"<p><strong>{escape(summary(done)) if done else 'not run yet'}</strong></p>",
        *_contents(sections),
    ]
    judged = claims(done)
    if judged:
        lines.append(f"<details><summary>{len(judged)} claims</summary><table><tbody>")
        lines += [
            f'<tr><td class="mark {verdict}">{verdict}</td><td>{_text(claim)}</td></tr>'
            for (_, claim), verdict in judged.items()
        ]
        lines.append("</tbody></table></details>")
    lines.append("</section>")
    return lines


def _contents(sections: Sequence[Section]) -> list[str]:
    """Links to the figures, and the commands for those that were not run."""
    lines = ["<nav><ul>"]
    for section in sections:
        name, title = escape(section.reproduction.name), escape(section.reproduction.title)
        if section.told:
            told = f'<a href="#{name}">{title}</a> <span class="small">({escape(section.verdict)})'
        else:
            told = f'{title} <span class="small">(<code>ordercast reproduce --only {name}</code>)'
        lines.append(f"<li>{told}</span></li>")
    return [*lines, "</ul></nav>"]


def _section(section: Section) -> list[str]:
    each, told = section.reproduction, section.told
    name = escape(each.name)
    lines = [
        f'<section id="{name}"><h2>{escape(each.title)}</h2>',
        f'<p class="small">{escape(each.source)} · <code>ordercast reproduce --only {name}</code> ·'
        f' <a href="{name}.csv">CSV</a> · <a href="{name}.parquet">Parquet</a> ·'
        f' <a href="{name}.svg">SVG</a> · <a href="{name}.pdf">PDF</a></p>',
        "<h3>The paper says</h3>",
        *(f"<blockquote>{_text(words)}</blockquote>" for words in each.says),
        # The density gives every figure the size it was drawn for, so all letters have one size.
        f'<a href="{name}.png"><img src="{name}.png" srcset="{name}.png 1.6x"'
        f' alt="{escape(each.title)}"></a>',
        "<h3>Compared</h3>",
        "<table><thead><tr><th></th><th>Statement</th><th>Measured</th></tr></thead><tbody>",
    ]
    quick = bool(told.get("quick"))
    aside = {CLAIM: "", OURS: "ours", INTERVAL: "interval"}
    for finding in section.findings:
        mark = finding.verdict
        notes = [note for note in (aside[finding.kind], "quick" if quick else "") if note]
        said = f" ({', '.join(notes)})" if notes else ""
        lines.append(
            f'<tr><td class="mark {mark}">{mark}{said}</td><td>{_text(finding.statement)}</td>'
            f"<td>{_text(finding.measured)}</td></tr>"
        )
    lines.append("</tbody></table>")
    if quick:
        lines.append(
            '<p class="small">These verdicts are of a quick run, with other parameters than the'
            f" full one: {escape(told.get('instead') or 'fewer points or runs')}.</p>"
        )
    kind = "quick" if quick else "in full"
    if section.results is not None:
        lines += _numbers(section.results)
    lines.append(f'<h3>How</h3><p>{_text(each.how)}</p><p class="small">{_facts(told, kind)}</p>')
    lines.append("</section>")
    return lines


def _numbers(results: Results) -> list[str]:
    """A line for each point, a column for each measure with its unit."""
    points = results.points()
    measures = dict.fromkeys(row.measure for row in results.rows)
    heads = [*results.parameters, *measures]
    units = ["" for _ in results.parameters] + [unit_of(name) for name in measures]
    more = f", the first {_MOST_ROWS}" if len(points) > _MOST_ROWS else ""
    lines = [
        f'<details><summary>The numbers: {len(points):,} points{more}</summary><div class="scroll">'
        '<table class="numbers"><thead><tr>',
        *(f"<th>{escape(name)}<br><span class=\"small\">{unit}</span></th>"
          for name, unit in zip(heads, units, strict=True)),
        "</tr></thead><tbody>",
    ]  # fmt: skip
    for config, rows in points[:_MOST_ROWS]:
        cells = [str(config.get(name, "")) for name in results.parameters]
        for name in measures:
            row = rows.get(name)
            mean = "" if row is None or row.mean is None else _rounded(row.mean, 4)
            cells.append(f"{mean} ± {_rounded(row.ci95, 2)}" if mean and row and row.ci95 else mean)
        lines.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
    lines.append("</tbody></table></div></details>")
    return lines


def _rounded(value: float, digits: int) -> str:
    """With at least this many digits; only very small or large values have a power of ten."""
    return f"{value:,.0f}" if 10**digits - 0.5 <= abs(value) < 1e12 else f"{value:,.{digits}g}"


def _text(words: str) -> str:
    """Words between backticks are code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(words))


def _facts(told: Mapping[str, Any], kind: str) -> str:
    facts = [
        f"{told['points']:,} points, {told['runs']:,} runs, {kind}",
        f"seed {told['seed']}, ordercast {told['version']}",
    ]
    if told.get("failed"):
        facts.append(f"{told['failed']:,} runs failed (see the CSV)")
    if told.get("unreached"):
        facts.append(f"{told['unreached']:,} points did not reach their interval")
    return escape("; ".join(facts) + ".")
