"""A reproduction from end to end: runs on Spark, tables, figure, page; and taken up again."""

import csv
import struct
from pathlib import Path

from pyspark.sql import SparkSession

from ordercast.pipeline.sweeps.results import read_results
from ordercast.studies.runner import reproduce
from ordercast.web import papers
from support.cases.small_graph import small_graph
from support.harness.browser import browsing, listen


def size_of(picture: Path) -> tuple[int, int]:
    """Width and height in pixels, from the header of a PNG file."""
    data = picture.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def look_at(index: Path) -> None:
    """In Chromium, also as narrow as a telephone: all papers, every figure, nothing cut off."""
    complaints: list[str] = []
    with browsing() as browser:
        page = browser.new_page()
        listen(page, complaints)
        page.goto(index.as_uri())
        text = page.inner_text("body")
        assert [name for name in ("[GS]", "[SWAP]", "[TOM]", "[STAB]") if name not in text] == []
        shown = page.evaluate("[...document.images].map(each => each.naturalWidth)")
        assert len(shown) == 2
        assert min(shown) > 500
        for width in (1_280, 390):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert complaints == []


def test_a_graph_is_reproduced_and_reproduced_again(spark: SparkSession, tmp_path: Path) -> None:
    """Graphs 1 and 3 on a grid of six points; they share their runs."""
    small = [small_graph(name) for name in ("gs-graph1", "gs-graph3")]
    first, third = reproduce(spark, small, tmp_path, quick=True)
    assert (first.points, first.runs, first.failed) == (6, 36, [])

    rows = list(csv.DictReader((tmp_path / "gs-graph1.csv").read_text().splitlines()))
    assert list(rows[0]) == [
        "sites", "groups", "size", "protocol", "measure", "mean", "ci95", "runs", "error", "seed",
    ]  # fmt: skip
    depths = [row for row in rows if row["measure"] == "depth_mean"]
    assert len(depths) == 6
    assert {row["protocol"] for row in depths} == {"propagation"}
    assert all(float(row["mean"]) >= 1 and float(row["ci95"]) >= 0 for row in depths)
    assert {row["runs"] for row in rows} == {"6"}
    assert len(read_results(tmp_path / "gs-graph1.parquet").rows) == len(rows)

    width, height = size_of(tmp_path / "gs-graph1.png")
    assert width > 1000
    assert height > 500
    page = (tmp_path / "index.html").read_text()
    for name in ("gs-graph1", "gs-graph3"):
        assert f'<img src="{name}.png"' in page
    for finding in (*first.findings, *third.findings):
        assert f'class="mark {finding.verdict}"' in page
    shown = {one["name"]: one for one in papers.listed(tmp_path)["papers"]}  # on the web page
    told = [finding["measured"] for finding in shown["gs-graph1"]["findings"]]
    assert told == [finding.measured for finding in first.findings]
    assert shown["gs-graph1"]["figure"]
    assert "36 runs" in shown["gs-graph1"]["run"]
    assert papers.figure(tmp_path, "gs-graph1") == tmp_path / "gs-graph1.png"
    assert not shown["gs-graph2"]["findings"]

    look_at(tmp_path / "index.html")

    without = tmp_path / "processes"
    (same, _) = reproduce(None, small, without, quick=True)
    assert same.findings == first.findings
    assert same.results.as_frame(spark).count() == len(rows)
    for name in ("gs-graph1", "gs-graph3"):
        for ending in ("csv", "parquet", "png", "svg", "pdf"):
            file = f"{name}.{ending}"
            assert (without / file).read_bytes() == (tmp_path / file).read_bytes(), file

    waves = list((tmp_path / "rows" / "gs-forests" / "rows").iterdir())
    before = (tmp_path / "gs-graph1.csv").read_bytes()
    (tmp_path / "gs-graph1.csv").unlink()
    reproduce(spark, small[:1], tmp_path, quick=True)
    assert (tmp_path / "gs-graph1.csv").read_bytes() == before
    assert list((tmp_path / "rows" / "gs-forests" / "rows").iterdir()) == waves  # nothing was run
    assert (tmp_path / "index.html").read_text() == page  # what was there stays
