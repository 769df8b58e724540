"""Spec files: what a grid expands to, and one clear line for every mistake."""

import argparse
import re
from pathlib import Path

import pytest

from ordercast.cli import plan as plan_verb
from ordercast.cli import sim as sim_verb
from ordercast.cli import stability as stability_verb
from ordercast.model.errors import ConfigError
from ordercast.pipeline.grids import points_of
from ordercast.pipeline.sweeps.spec import Repeats, parse_spec, read_spec
from ordercast.pipeline.sweeps.statistics import Precision
from ordercast.pipeline.sweeps.swept_verb import swept_verb

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "sweeps"
PLAN = '[sweep]\nverb = "plan"\n[fixed]\ngroups = 4\nsites = 9\nsize = 3\n'
SIM = '[sweep]\nverb = "sim"\n[fixed]\ngroups = 4\nsites = 9\nsize = 3\n'
STABILITY = '[sweep]\nverb = "stability"\n[fixed]\ntree = "b=2,p=3"\n'


def test_the_grid_is_the_product_in_the_order_written_with_what_is_fixed() -> None:
    spec = parse_spec(
        '[sweep]\nverb = "plan"\n[grid]\nsites = [9, 12]\nbuilder = ["star", "greedy"]\n'
        "[fixed]\ngroups = 4\nsize = 3\n",
        source="s.toml",
    )
    assert list(spec.configs()) == [
        {"sites": sites, "builder": builder, "groups": 4, "size": 3}
        for sites in (9, 12)
        for builder in ("star", "greedy")
    ]


def test_no_grid_is_one_point() -> None:
    assert list(parse_spec(PLAN, source="s").configs()) == [{"groups": 4, "sites": 9, "size": 3}]


def test_dashes_and_underscores_are_the_same_option() -> None:
    spec = parse_spec(SIM + 'on-failure = "wait"\n', source="s.toml")
    assert spec.fixed["on_failure"] == "wait"


@pytest.mark.parametrize(
    ("line", "repeats"),
    [
        ("", Repeats(1, 1)),
        ("repeat = 7", Repeats(7, 7)),
        (
            'until = {measure = "depth_mean", within = "10%"}',
            Repeats(10, 1000, (Precision("depth_mean", share=0.1),)),
        ),
        (
            'until = [{measure = "depth_mean", within = 0.05, at_least = 20},'
            ' {measure = "extra_mean", plus_minus = 0.5, at_most = 5000}]',
            Repeats(
                20, 5000, (Precision("depth_mean", share=0.05), Precision("extra_mean", width=0.5))
            ),
        ),
    ],
)
def test_how_often_to_repeat(line: str, repeats: Repeats) -> None:
    spec = parse_spec(PLAN.replace("[fixed]", f"{line}\n[fixed]"), source="s.toml")
    assert spec.repeats == repeats


@pytest.mark.parametrize(
    ("verb", "module"), [("plan", plan_verb), ("sim", sim_verb), ("stability", stability_verb)]
)
def test_every_option_of_the_verb_can_be_swept_or_is_said_to_be_elsewhere(
    verb: str, module: object
) -> None:
    parser = argparse.ArgumentParser()
    module.arguments(parser)  # type: ignore[attr-defined]
    options = {action.dest for action in parser._actions if action.dest != "help"}
    drawn = set() if verb == "stability" else {"sites", "groups", "size", "spread", "sizes"}
    assert options | drawn == set(swept_verb(verb).options)


MISTAKES = [
    ("", "s.toml: the table [sweep] is missing"),
    ("a =", "s.toml: Invalid value (at end of document)"),
    ("[swep]", "s.toml: unknown key 'swep' (did you mean 'sweep'?)"),
    ("sweep = 1", "s.toml: sweep: must be a table, not 1"),
    ("[sweep]", "s.toml: sweep.verb: is missing (one of plan, sim, stability)"),
    ('[sweep]\nverb = "plam"', "s.toml: sweep.verb: there is no 'plam' to sweep (did you mean"),
    (STABILITY.replace("b=2", "b=x"), "s.toml: fixed.tree: b: x is not a count (1 or more)"),
    (STABILITY.replace("p=3", "q=3"), "s.toml: fixed.tree: there is no 'q' (known: n, b, p, z)"),
    (STABILITY + "protocol = 's_coord'", "s.toml: fixed.protocol: 's_coord' is none of coordp"),
    (PLAN.replace("[f", "repeats = 3\n[f"), "s.toml: sweep: unknown key 'repeats' (did you mean"),
    (PLAN.replace("[f", "repeat = 0\n[f"), "s.toml: sweep.repeat: 0 is not a whole number from 1"),
    (PLAN.replace("[f", "seed = -1\n[f"), "s.toml: sweep.seed: -1 is not a whole number from 0 on"),
    (PLAN.replace("[f", "history = true\n[f"), "s.toml: sweep.history: only runs of 'sim' have a"),
    (PLAN.replace("[f", "seconds = 1\n[f"), "s.toml: sweep.seconds: 1 is neither true nor false"),
    (PLAN.replace("[f", "until = 3\n[f"), "s.toml: sweep.until: must be like {measure = "),
    (
        PLAN.replace("[f", 'repeat = 2\nuntil = {measure = "load_max", within = 0.1}\n[f'),
        "s.toml: sweep: 'repeat' and 'until' exclude each other",
    ),
    (
        PLAN.replace("[f", 'until = {measure = "dept_mean", within = 0.1}\n[f'),
        "s.toml: sweep.until.measure: 'plan' does not measure 'dept_mean' (did you mean",
    ),
    (
        PLAN.replace("[f", 'until = {measure = "load_max", within = 10}\n[f'),
        "s.toml: sweep.until.within: 10 is no share of the mean (write",
    ),
    (
        PLAN.replace("[f", 'until = {measure = "load_max"}\n[f'),
        "s.toml: sweep.until: give 'within' (a share of the mean) or 'plus_minus' (a width)",
    ),
    (
        PLAN.replace("[f", 'until = {measure = "load_max", plus_minus = 0}\n[f'),
        "s.toml: sweep.until.plus_minus: 0 is not a number above 0",
    ),
    (PLAN + "[grid]\nbuilder = 'star'", "s.toml: grid.builder: must be a list of values, not"),
    (PLAN + "[grid]\nbuilder = []", "s.toml: grid.builder: has no values"),
    (PLAN + "[grid]\nsites = [1]", "s.toml: fixed.sites: is in [grid] as well"),
    (PLAN + '[grid]\nbuilder = ["star", "star"]', "s.toml: grid.builder: 'star' is listed twice"),
    (PLAN + '[grid]\nbuilder = ["stra"]', "s.toml: grid.builder: 'stra' is none of star, greedy"),
    (PLAN + "bilder = 1", "s.toml: fixed: 'plan' has no option 'bilder' (did you mean 'builder'?)"),
    (PLAN + "messages = 1", "s.toml: fixed: 'plan' has no option 'messages'"),
    (PLAN + "[grid]\nseed = [1]", "s.toml: grid.seed: is not swept: [sweep] seed gives every run"),
    (PLAN + "rebalance = 1", "s.toml: fixed.rebalance: 1 is neither true nor false"),
    (PLAN + "branching = 1", "s.toml: fixed.branching: 1 is not a whole number from 2 on"),
    (PLAN + "spread = 'narrow'", "s.toml: fixed.spread: 'narrow' is not a number from 0.01"),
    (PLAN + "spread = nan", "s.toml: fixed.spread: nan is not a number from 0.01"),
    (PLAN + "sizes = 'gauss'", "s.toml: fixed.sizes: 'gauss' is none of fixed, exponential"),
    (PLAN + "tie = [1]", "s.toml: fixed.tie: [1] is not a list of names"),
    (SIM + "network = 'p2p:P=1'", "s.toml: fixed.network: P: '1' is not a duration"),
    (
        SIM + "faults = {los = 0.1}",
        "s.toml: fixed.faults: there is no 'los' (did you mean 'loss'?)",
    ),
    (SIM + "faults = 3", "s.toml: fixed.faults: must be a text or a table, not 3"),
    (SIM + "limits = {windw_bytes = 3}", "s.toml: fixed.limits: there is no 'windw_bytes'"),
    (SIM + "timing = 'ack_delay=0'", "s.toml: fixed.timing: ack_delay: 0 is too small"),
    (SIM + "settle = 3", "s.toml: fixed.settle: 3 is not a duration"),
    (SIM + "rate = 0", "s.toml: fixed.rate: 0 is not a number from 1e-09 to 1e+09"),
    (SIM + "origins = 0", "s.toml: fixed.origins: 0 is not a whole number from 1 on"),
    (SIM.replace("4", '"no.toml"'), "no.toml: no such file or directory"),
    (SIM.replace("4", "[4]"), "s.toml: fixed.groups: [4] is not a whole number from 1 on"),
]


@pytest.mark.parametrize(("text", "line"), MISTAKES)
def test_a_mistake_is_one_line_with_file_field_and_value(text: str, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_spec(text, source="s.toml")
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)


def test_too_large_a_grid_is_refused_before_it_is_expanded() -> None:
    values = list(range(2, 502))
    with pytest.raises(ConfigError, match=r"s\.toml: grid: 250,000 points are too many"):
        parse_spec(
            f'[sweep]\nverb = "plan"\n[grid]\nsites = {values}\nsize = {values}\n', source="s.toml"
        )


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (PLAN.replace("size = 3", ""), "s.toml: size: is missing; groups are drawn, since"),
        (PLAN.replace("size = 3", "size = 10"), "s.toml: size: groups of 10 do not fit 9 sites"),
        (PLAN.replace("groups = 4", ""), "s.toml: groups: is missing: a file, or how many to draw"),
        (PLAN + "tie = 'a'\nbuilder = 'star'", "s.toml: tie: settles ties of 'greedy' only"),
        (SIM + "origins = 10", "s.toml: origins: 10 of 9 sites"),
        (SIM + "stability = 'trains'", "s.toml: stability: there is no 'trains'"),
        (
            STABILITY + "random_tree = 'n=9,b=2,p=2'",
            "s.toml: tree: give 'tree' or 'random_tree', one of them",
        ),
        (
            STABILITY.replace("b=2,p=3", "n=9000,b=2") + "protocol = 'full_dist'",
            "s.toml: full_dist: 9,000 members would send 81,000,000 messages",
        ),
        (SIM + "schedule = true", "s.toml: schedule: draws it all from the seed: leave out"),
    ],
)
def test_options_that_never_go_together_are_a_mistake(text: str, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        points_of(parse_spec(text, source="s.toml"))
    assert str(caught.value).startswith(line)


def test_options_that_go_together_elsewhere_are_a_failed_point() -> None:
    spec = parse_spec(SIM + '[grid]\nprotocol = ["propagation", "centralized"]\n'
                      'builder = ["greedy", "star"]\n', source="s.toml")  # fmt: skip
    troubles = {(p.config["protocol"], p.config["builder"]): p.trouble for p in points_of(spec)}
    assert (
        troubles["centralized", "greedy"]
        == "builder: 'centralized' runs on 'star', not on 'greedy'"
    )
    assert sum(map(bool, troubles.values())) == 1


def test_files_are_found_beside_the_spec_and_travel_with_it(tmp_path: Path) -> None:
    (tmp_path / "g.toml").write_text('[groups]\nalpha = ["a", "b"]\n')
    (tmp_path / "s.toml").write_text('[sweep]\nverb = "plan"\n[grid]\ngroups = ["g.toml"]\n')
    spec = read_spec(str(tmp_path / "s.toml"))
    assert spec.files == {"g.toml": '[groups]\nalpha = ["a", "b"]\n'}
    assert [point.trouble for point in points_of(spec)] == [""]


def test_how_groups_are_drawn_does_not_go_with_a_file(tmp_path: Path) -> None:
    (tmp_path / "g.toml").write_text('[groups]\nalpha = ["a", "b"]\n')
    (tmp_path / "s.toml").write_text(
        '[sweep]\nverb = "plan"\n[fixed]\ngroups = "g.toml"\nsize = 3\n'
    )
    with pytest.raises(ConfigError, match=r"size: says how groups are drawn, but 'g.toml' is a"):
        points_of(read_spec(str(tmp_path / "s.toml")))


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.name)
def test_the_examples_can_be_run(path: Path) -> None:
    points = points_of(read_spec(str(path)))
    assert [point.trouble for point in points if point.trouble] == []


def test_the_pages_example_can_be_run() -> None:
    page = (EXAMPLES.parent.parent / "docs" / "sweeps.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    points = points_of(parse_spec(block, source="builders.toml"))
    assert [point.trouble for point in points] == [""] * 6


def test_the_page_names_every_measure_and_key() -> None:
    page = (EXAMPLES.parent.parent / "docs" / "sweeps.md").read_text(encoding="utf-8")
    told = page.replace("`…_p50`", "`latency_ms_p50`").replace("`…_p99`", "`latency_ms_p99`")
    names = {
        *swept_verb("plan").measures,
        *swept_verb("sim").measures,
        *swept_verb("stability").measures,
        "verb",
        "seed",
        "repeat",
        "until",
        "history",
    }
    assert [name for name in sorted(names) if f"`{name}`" not in told] == []
