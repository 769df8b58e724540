"""`ordercast sim`: the contract's JSON, a summary for people, one line for a mistake."""

import json
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cli.command import COMMAND, EXAMPLES, run
from ordercast.check.report import check_history
from ordercast.cli import main
from ordercast.history.reader import read_history

FIGURE_3 = str(EXAMPLES / "figure3.toml")
SMALL = ("--messages", "50")


def test_a_crash_for_good_waits_until_the_cluster_has_begun(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for seed in range(1, 7):
        words = ["--faults", "crash=2", "--messages", "300", "--seed", str(seed), "--json"]
        assert main(["sim", FIGURE_3, *words]) == 0
        assert json.loads(capsys.readouterr().out)["sent"] > 100


def test_a_run_that_has_judged_nothing_is_no_success(capsys: pytest.CaptureFixture[str]) -> None:
    """All of it is over before the voters have met."""
    assert main(["sim", FIGURE_3, "--faults", "crash=3", "--messages", "5"]) == 1
    out = capsys.readouterr().out
    assert "0 sent, 0 deliveries" in out
    assert "verdict      none: nothing was accepted, so nothing was judged." in out
    assert "no violation" not in out


def test_the_groups_of_a_cluster_file_are_planned_and_simulated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cluster.toml"
    sites = "".join(f'[sites.{s}]\naddress = "127.0.0.1:{n}"\n' for n, s in enumerate("abc", 7101))
    file.write_text(f'[cluster]\nname = "c"\n{sites}[groups]\nalpha = ["a", "b"]\n')
    assert main(["plan", str(file), "--json"]) == 0
    assert sorted(json.loads(capsys.readouterr().out)["parent"]) == ["a", "b", "c"]
    assert main(["sim", str(file), "--messages", "10", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sent"] == 10
    file.write_text('[cluster]\nname = "c"\n')
    assert main(["plan", str(file)]) == 2
    assert (
        capsys.readouterr().err
        == f"ordercast: {file}: no site is given: write [sites.NAME] with its address\n"
    )


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["sim", *arguments, "--json"]) == 0
    out, err = capsys.readouterr()
    assert "ordercast: " not in err  # a long run says how far it is, and how long depends on load
    found = json.loads(out)
    assert isinstance(found, dict)
    return found


def mistake(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["sim", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("ordercast: ")
    assert err.count("\n") == 1
    return err.removeprefix("ordercast: ").rstrip("\n")


def test_the_json_is_the_contracts(capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(capsys, FIGURE_3, *SMALL, "--seed", "7")
    assert found["protocol"] == "propagation"
    assert found["seed"] == 7
    assert found["sent"] == 50
    assert found["violations"] == []
    assert found["epochs"] == 1
    assert found["replay"] == f"ordercast sim {FIGURE_3} --messages 50 --seed 7"
    assert found["frames"]["data"] > 50
    assert found["events"] >= sum(found["frames"].values())
    assert found["virtual_seconds"] > 0


def test_the_same_arguments_give_the_same_hash(capsys: pytest.CaptureFixture[str]) -> None:
    faults = ("--faults", "loss=0.2,partition=1,duplicate=0.1", "--seed", "3")
    one = as_json(capsys, FIGURE_3, *SMALL, *faults)
    assert one["faults"]["loss"] > 0
    assert one["history_hash"] == as_json(capsys, FIGURE_3, *SMALL, *faults)["history_hash"]
    other = as_json(capsys, FIGURE_3, *SMALL, *faults[:2], "--seed", "4")
    assert other["history_hash"] != one["history_hash"]


def test_a_person_gets_a_short_summary(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", FIGURE_3, *SMALL, "--faults", "loss=0.1"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "messages     50 sent" in out
    assert out.endswith("verdict      no violation\n")
    assert len(out.splitlines()) < 12


def test_every_option_reaches_the_run_and_the_replay_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = [
        "--protocol", "centralized", "--builder", "star", "--messages", "40", "--rate", "500.0",
        "--batch", "2", "--payload", "100", "--implicit", "0.2", "--replies", "0.5",
        "--deliver", "agreed",
        "--on-failure", "wait", "--stability", "train", "--durability", "os", "--codec", "bytes",
        "--origins", "a,b",
        "--network", "p2p:P=100us,L=2ms", "--wake", "20us", "--longest-sync", "5ms",
        "--settle", "30s", "--faults", "crash=1,restart=1",
        "--most-events", "90000", "--limits", "window_messages=100",
        "--timing", "ack_delay=2000000", "--causal",
    ]  # fmt: skip
    found = as_json(capsys, FIGURE_3, *options, "--seed", "5")
    assert found["replay"] == " ".join(["ordercast", "sim", FIGURE_3, *options, "--seed", "5"])
    assert found["builder"] == "star"
    assert found["faults"] == {"crash": 1, "restart": 1}


def test_the_tracker_is_that_of_a_cluster_file_unless_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    usual = as_json(capsys, FIGURE_3, *SMALL)
    named = as_json(capsys, FIGURE_3, *SMALL, "--stability", "s_coordp")
    plain = as_json(capsys, FIGURE_3, *SMALL, "--stability", "plain")
    assert usual["history_hash"] == named["history_hash"] != plain["history_hash"]
    assert named["replay"] == usual["replay"]
    assert plain["replay"].endswith("--messages 50 --stability plain --seed 1")


def test_a_table_can_be_given_inline(capsys: pytest.CaptureFixture[str]) -> None:
    table = '{"groups":{"g":["a","b"]}}'
    found = as_json(capsys, table, *SMALL)
    assert found["delivered"] == 100
    assert found["replay"] == f"ordercast sim '{table}' --messages 50 --seed 1"


def test_a_schedule_is_drawn_from_the_seed_alone(capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(capsys, "--schedule", "--protocol", "centralized", "--seed", "5")
    assert found["replay"] == "ordercast sim --schedule --protocol centralized --seed 5"
    assert mistake(capsys, "--schedule", "--rate", "5") == (
        "--schedule draws it all from the seed: leave out 'rate'"
    )


def test_faults_and_delays_come_from_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    faults, wan = tmp_path / "faults.toml", tmp_path / "wan.toml"
    faults.write_text('[[fault]]\nkind = "pause"\nlength = "10ms"\nsites = ["d"]\n')
    wan.write_text(
        '[regions]\nx = ["a", "b", "c", "d", "e", "f", "g", "h", "j"]\n[delays.x]\nx = "3ms"\n'
    )
    arguments = ("--faults", str(faults), "--network", f"wan:{wan}", "--deliver", "agreed")
    found = as_json(capsys, FIGURE_3, *SMALL, *arguments)
    assert found["faults"] == {"pause": 1}
    assert found["latency_ms"]["p50"] > 2.9


def test_the_history_is_written_and_judged_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "history"
    found = as_json(capsys, FIGURE_3, *SMALL, "--faults", "loss=0.1", "--history", str(folder))
    history = read_history(folder)
    assert len(history.deliveries) == found["delivered"]
    assert history.meta.seed == 1
    assert history.meta.config["command"] == found["replay"]
    assert check_history(history).ok
    assert main(["sim", FIGURE_3, *SMALL, "--history", str(folder)]) == 0  # replaces a history


def test_a_violation_exits_with_1_and_prints_the_line_that_replays_it(tmp_path: Path) -> None:
    mutant = """
from ordercast.core.engine import Engine
deliver = Engine.drain
def drain(self):
    box = deliver(self)
    box.deliver = [item for item in box.deliver if item.position != 3]
    return box
Engine.drain = drain
"""
    done = run("sim", FIGURE_3, *SMALL, code=mutant, at=tmp_path)
    assert done.returncode == 1
    assert "VIOLATION    positions" in done.stdout
    assert f"replay       ordercast sim {FIGURE_3} --messages 50 --seed 1\n" in done.stdout
    told = json.loads(run("sim", FIGURE_3, *SMALL, "--json", code=mutant, at=tmp_path).stdout)
    assert told["violations"][0]["check"] == "positions"
    assert told["violations"][0]["witness"]["delivery"]["position"] == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "GROUPS is missing; see 'ordercast sim --help'"),
        (("nowhere.toml",), "nowhere.toml: no such file or directory"),
        ((FIGURE_3, "--protocol", "propagaton"), "there is no protocol 'propagaton' (did you mean"),
        ((FIGURE_3, "--faults", "loss=7"), "faults: loss: 7 is not a probability (0 to 1)"),
        ((FIGURE_3, "--faults", "nowhere.toml"), "nowhere.toml: no such file or directory"),
        (
            (FIGURE_3, "--faults", "crash=1", "--causal", "--deliver", "agreed"),
            "causal: not at 'agreed' with on-failure 'exclude'",
        ),
        ((FIGURE_3, "--slow-member", "exlude"), "slow-member: there is no 'exlude' (did you mean"),
        (
            (FIGURE_3, "--slow-member", "exclude", "--on-failure", "wait"),
            "slow-member: 'exclude' needs on_failure = 'exclude'",
        ),
        ((FIGURE_3, "--network", "wan:nowhere.toml"), "nowhere.toml: no such file or directory"),
        ((FIGURE_3, "--network", "lna"), "network: there is no 'lna' (did you mean 'lan'?)"),
        ((FIGURE_3, "--rate", "0"), "rate: 0.0 is not a rate"),
        ((FIGURE_3, "--rate", "fast"), "rate: 'fast' is not a number"),
        ((FIGURE_3, "--rate", "nan"), "rate: nan is not a rate"),
        ((FIGURE_3, "--limits", "window=3"), "limits: there is no 'window' (did you mean"),
        ((FIGURE_3, "--limits", "link_items=0"), "limits: link_items: 0 is too small (1 or more)"),
        ((FIGURE_3, "--timing", "ack_delay=x"), "timing: ack_delay: x is not a count"),
        (
            (FIGURE_3, "--stability", "trains"),
            "stability: there is no 'trains' (did you mean 'train'?)",
        ),
        ((FIGURE_3, "--origins", "a,zz"), "origins: there is no site 'zz'"),
        ((FIGURE_3, "--seed", "-1"), "--seed: -1 is too small (0 or more)"),
        ((FIGURE_3, "--seeds", "1"), "there is no option '--seeds' (did you mean '--seed'?)"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert mistake(capsys, *arguments).startswith(message)


def test_without_the_extra_history_it_says_so_before_the_run() -> None:
    missing = "import sys; sys.modules['pyarrow'] = None"
    done = run("sim", FIGURE_3, "--messages", "100000000", "--history", "x", code=missing)
    assert done.returncode == 2
    assert "pip install 'ordercast[history]'" in done.stderr


def test_a_long_run_tells_its_progress_and_stops_at_once_on_ctrl_c() -> None:
    with subprocess.Popen(
        [*COMMAND, "sim", FIGURE_3, "--messages", "10000000", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert "% of the sending" in line
        process.send_signal(signal.SIGINT)
        begun = time.monotonic()
        out, err = process.communicate(timeout=30)
        assert time.monotonic() - begun < 10
    assert process.returncode == 130
    assert out == ""
    assert err.endswith("ordercast: interrupted\n")
    assert "Traceback" not in err


def test_help_has_an_example() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ordercast.cli", "sim", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "ordercast sim groups.toml --faults loss=0.1,partition=2 --seed 7" in done.stdout


def test_changing_draws_a_schedule_with_several_epochs(capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(capsys, "--schedule", "--changing", "--seed", "2")
    assert found["epochs"] > 1
    assert found["replay"] == "ordercast sim --schedule --changing --protocol propagation --seed 2"
    assert main(["sim", "--changing"]) == 2
    assert "--changing goes with --schedule" in capsys.readouterr().err
    both = mistake(capsys, "--schedule", "--changing", "--excluding")
    assert both == "--changing and --excluding are two kinds of schedules: take one"


def test_cutting_draws_a_schedule_with_links_that_never_heal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = as_json(capsys, "--schedule", "--cutting", "--seed", "2")
    assert found["faults"]["cut"] >= 1
    assert found["replay"] == "ordercast sim --schedule --cutting --protocol propagation --seed 2"
    alone = mistake(capsys, "--cutting")
    assert alone == "--cutting goes with --schedule; otherwise see 'cut' in --faults"


def test_cuts_are_replayed(capsys: pytest.CaptureFixture[str]) -> None:
    table = '{"groups": {"all": ["a", "b", "c", "d"]}}'
    given = [table, "--faults", "cut=1,cut_one_way=1", "--notice", "30ms", "--messages", "50"]
    found = as_json(capsys, *given, "--seed", "5")
    assert (found["faults"]["cut"], found["faults"]["cut_one_way"]) == (1, 1)
    words = shlex.split(found["replay"])
    assert as_json(capsys, *words[2:])["history_hash"] == found["history_hash"]
