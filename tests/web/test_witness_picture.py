"""Every known violation is drawn: the sites and messages of its witness, and what is missing."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ordercast.check.report import check_history
from ordercast.cli import main
from ordercast.history.writer import write_history
from ordercast.web.witness_picture import draw_witness, explain
from support.cases.known import DATA, known_cases

SVG = "{http://www.w3.org/2000/svg}"
FILES = sorted(path.stem for path in DATA.glob("*.txt"))


def sites_named(witness: dict[str, object]) -> set[str]:
    listed = witness.get("sites", ())
    assert isinstance(listed, list | tuple)
    named = {witness.get("site"), witness.get("member"), *listed} - {None}
    return {str(site) for site in named}


@pytest.mark.parametrize("name", FILES)
def test_every_known_witness_is_drawn_with_its_sites(name: str) -> None:
    drawn = 0
    for case in known_cases(name):
        found = check_history(case.history, causal=True).as_json()["witnesses"]
        for check, witness in found.items():
            for history in (None, case.history):
                root = ElementTree.fromstring(draw_witness(check, witness, history))
                texts = {element.text for element in root.iter(f"{SVG}text")}
                assert explain(check, witness) in texts
                rows = {g.get("data-site") for g in root.iter(f"{SVG}g")}
                assert sites_named(witness) <= rows, (check, witness)
                drawn += 1
    assert drawn or name == "excuses"


def test_two_orders_are_a_crossing() -> None:
    case = next(each for each in known_cases("pairwise_order") if each.expected)
    witness = check_history(case.history).as_json()["witnesses"]["pairwise_order"]
    root = ElementTree.fromstring(draw_witness("pairwise_order", witness))
    joins = [e.get("d", "") for e in root.iter(f"{SVG}path") if "wi-join" in e.get("class", "")]
    ends = [(float(d[1:].split()[0]), float(d.split()[-2])) for d in joins]
    assert len(ends) == 2
    (one, other) = ends
    assert (one[0] - other[0]) * (one[1] - other[1]) < 0


def test_the_audit_draws_what_it_finds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = next(each for each in known_cases("pairwise_order") if each.expected)
    write_history(case.history, tmp_path / "history")
    target = tmp_path / "violation.svg"
    words = ["audit", str(tmp_path / "history"), "--engine", "memory", "--draw", str(target)]
    assert main([*words, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["drawn"] == [str(target), str(tmp_path / "violation-acyclic_order.svg")]
    for file in found["drawn"]:
        ElementTree.parse(file)
    assert main([*words[:-1], str(tmp_path / "violation.png")]) == 2
