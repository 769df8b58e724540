"""The server of the page: what it admits, what it refuses, and what a page may do."""

import re
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ordercast.cli import main
from ordercast.cli.dashboard import parse_line
from ordercast.model.errors import ConfigError, Error
from ordercast.net.client.destinations import LocalDestination
from ordercast.net.cluster.certificates import write_certificates
from ordercast.studies.paper_listing import PaperListing
from ordercast.web.access import POLICY, Access
from ordercast.web.app import Dashboard, make_app
from ordercast.web.controls import Controls
from ordercast.web.feed import Sampler, TraceFeed
from ordercast.web.pending_run import PendingRun
from ordercast.web.runs import run_config
from ordercast.web.server import access_to
from support.harness.served_page import ServedPage, served

TOKEN = "a token for tests"
SMALL = """ordercast sim '{"groups":{"alpha":["a","b"],"beta":["b","c"]}}' --messages 20"""


def dashboard(token: str = "") -> Dashboard:
    access = Access(local=True, secure=False, token=token)
    return Dashboard("<b>&amp; 'quoted'", access, parse_line, papers=PaperListing(None))


@pytest.fixture(scope="module")
def page() -> Iterator[ServedPage]:
    shown = dashboard()
    shown.runs.add(*run_config(*parse_line(f"{SMALL} --seed 3")), keep=True)
    with served(shown) as found:
        yield found


@pytest.fixture(scope="module")
def locked() -> Iterator[ServedPage]:
    with served(dashboard(TOKEN)) as found:
        yield found


def test_every_answer_says_what_the_page_may_do(page: ServedPage) -> None:
    for path in ("/", "/replay", "/login", "/static/style.css", "/api/replay", "/none"):
        found = page.get(path)
        assert found.headers["content-security-policy"] == POLICY
        assert found.headers["x-content-type-options"] == "nosniff"
        assert found.headers["referrer-policy"] == "no-referrer"
    assert "unsafe" not in POLICY


def test_pages_hold_no_inline_script_or_style_and_load_nothing_from_elsewhere(
    page: ServedPage,
) -> None:
    text = page.get("/replay").body.decode()
    assert not re.search(r"<script(?![^>]*\bsrc=)", text)
    assert not re.search(r"\son\w+=|\sstyle=|<style", text)
    for path in re.findall(r'(?:src|href)="([^"#]+)"', text):
        assert path.startswith("/")
        assert page.get(path).status in (200, 303), path
    package = Path(__file__).parents[2] / "src" / "ordercast" / "web" / "static"
    for file in package.glob("*.js"):
        text = file.read_text(encoding="utf-8")
        assert "innerHTML" not in text
        assert "http://" not in text.replace("http://www.w3.org/", "")
        assert "https://" not in text


def test_names_are_data_and_never_markup(page: ServedPage) -> None:
    text = page.get("/replay").body.decode()
    assert "&lt;b&gt;&amp;amp; &#x27;quoted&#x27;" in text
    assert "<b>&amp;" not in text


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", ""])
def test_a_name_that_was_bound_anew_is_refused(page: ServedPage, host: str) -> None:
    assert page.get("/replay", host=host).status == 421


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:1", "[::1]:80"])
def test_the_names_of_this_machine_are_served(page: ServedPage, host: str) -> None:
    assert page.get("/replay", host=host).status == 200


def test_a_page_of_another_host_may_not_ask_for_work(page: ServedPage) -> None:
    work = {"line": SMALL}
    assert page.post("/api/replay", work, origin="http://evil.example").status == 403
    assert page.post("/api/replay", work, sec_fetch_site="cross-site").status == 403
    assert page.post("/api/replay", work, origin="null").status == 403
    plain = page.ask("POST", "/api/replay", "{}", {"content-type": "text/plain"})
    assert plain.status == 415


def test_a_body_that_is_too_large_or_no_object_is_refused(page: ServedPage) -> None:
    assert page.post("/api/replay", {"line": "x" * (1 << 20)}).status == 413
    assert page.post("/api/replay", ["x"]).status == 400
    assert page.post("/api/replay", {"line": 7}).json()["error"] == "line: is not a text"


def test_without_the_token_only_the_way_to_it_is_open(locked: ServedPage) -> None:
    for path in ("/", "/replay", "/nothing"):
        found = locked.get(path)
        assert (found.status, found.headers["location"]) == (303, "/login")
    assert locked.get("/api/replay").status == 401
    assert locked.post("/api/replay", {"line": SMALL}).status == 401
    assert locked.get("/api/replay", authorization="Bearer wrong").status == 401
    assert locked.get("/api/replay", cookie=f"ordercast={TOKEN}").status == 401
    assert locked.get("/login").status == 200
    assert "quoted" not in locked.get("/login").body.decode()


def test_the_token_opens_the_page(locked: ServedPage) -> None:
    assert locked.get("/api/replay", authorization=f"Bearer {TOKEN}").status == 200
    assert locked.post("/api/login", {"token": "wrong"}).status == 401
    found = locked.post("/api/login", {"token": TOKEN})
    cookie = found.headers["set-cookie"]
    assert "httponly" in cookie.lower()
    assert "samesite=strict" in cookie.lower()
    assert TOKEN not in cookie
    assert locked.get("/replay", cookie=cookie.partition(";")[0]).status == 200


def test_another_address_needs_tls_and_a_token(tmp_path: Path) -> None:
    cert = tmp_path / "cert.pem"
    cert.write_text("")
    for host in ("0.0.0.0", "::", "192.0.2.1", "example"):
        for given, token in ((None, ""), (cert, ""), (None, TOKEN)):
            with pytest.raises(ConfigError, match="TLS and a token"):
                access_to(host, cert=given, key=None, token=token)
        assert access_to(host, cert=cert, key=None, token=TOKEN).secure
    for host in ("127.0.0.1", "::1", "localhost", "Localhost"):
        assert access_to(host, cert=None, key=None, token="").local


def test_over_tls_the_cookie_is_for_tls_alone(tmp_path: Path) -> None:
    write_certificates("demo", ["site"], tmp_path / "certs")
    cert, key = tmp_path / "certs" / "site.pem", tmp_path / "certs" / "site.key"
    shown = dashboard(TOKEN)
    shown.access = Access(local=True, secure=True, token=TOKEN)
    with served(shown, cert, key) as found:
        origin = f"https://{found.host}:{found.port}"
        answer = found.post("/api/login", {"token": TOKEN}, origin=origin)
        assert answer.status == 200
        assert "secure" in answer.headers["set-cookie"].lower()
        plain = f"http://{found.host}:{found.port}"
        assert found.post("/api/login", {"token": TOKEN}, origin=plain).status == 403


def test_a_line_is_run_and_can_be_asked(page: ServedPage) -> None:
    run = page.post("/api/replay", {"line": f"{SMALL} --seed 5"}).json()["run"]
    facts = page.get(f"/api/replay/{run}").json()
    assert (facts["sent"], facts["sites"]) == (20, ["a", "b", "c"])
    assert facts["command"].endswith("--seed 5")
    picture = page.get(f"/api/replay/{run}/picture?start=0&stop=20000000&width=900").json()
    assert picture["svg"].startswith("<svg")
    assert picture["shown"] == picture["found"] > 0
    state = page.get(f"/api/replay/{run}/state?at={facts['length']}").json()
    assert {site["state"] for site in state["sites"]} == {"up"}
    assert state["after"] is None
    last = next(site["last"] for site in state["sites"] if site["last"])
    journey = page.get(f"/api/replay/{run}/message?message={last}").json()
    assert journey["steps"][0]["kind"] == "send"
    assert "<svg" in page.get(f"/api/replay/{run}/forest?at=0").json()["svg"]


def test_mistakes_are_told_in_one_line(page: ServedPage) -> None:
    for path in (
        "/api/replay/99",
        "/api/replay/1/picture?start=x",
        "/api/replay/1/state",
        "/api/replay/1/message?message=a/1/alpha/9999",
        "/api/replay/1/message?message=%3Cscript%3E",
    ):
        found = page.get(path)
        assert found.status == 400
        assert "\n" not in found.json()["error"]
    assert page.get("/api/replay/one").status == 404


@pytest.mark.parametrize(
    "line",
    [
        "ordercast sim /etc/passwd",
        "ordercast sim -",
        f"{SMALL} --faults /etc/passwd.toml",
        f"{SMALL} --network wan:/etc/passwd",
        f"{SMALL} --history /nowhere/x",
        f"{SMALL} --trace /nowhere/x",
        f"{SMALL} --messages 100000000",
        "ordercast sim --help",
        "ordercast sim 'unclosed",
        "rm -rf /",
        "",
    ],
)
def test_a_line_from_a_page_reads_and_writes_no_file(page: ServedPage, line: str) -> None:
    found = page.post("/api/replay", {"line": line})
    assert found.status == 400
    assert "root:" not in found.body.decode()


def test_the_same_line_from_the_command_line_is_the_same_run() -> None:
    config, seed = parse_line("ordercast sim --schedule --excluding --seed 7")
    trace, _ = run_config(config, seed)
    assert parse_line(trace.command) == (config, seed)
    with pytest.raises(Error):
        parse_line("ordercast sim --schedule --nothing")


def test_the_planner_answers_and_its_mistakes_are_one_line(page: ServedPage) -> None:
    assert "[groups]" in page.get("/api/plan").json()["groups"]
    wanted = {"groups": '[groups]\nalpha = ["a", "b"]\n', "objective": "delay"}
    found = page.post("/api/plan", wanted).json()
    assert found["builders"][0]["svg"].startswith("<svg")
    for wrong in ("[groups", '[groups]\nalpha = ["<b>"]\n', "{"):
        answer = page.post("/api/plan", {**wanted, "groups": wrong})
        assert answer.status == 400
        assert "\n" not in answer.json()["error"]


def test_the_papers_are_listed_and_a_figure_is_no_way_to_other_files(page: ServedPage) -> None:
    names = {one["name"] for one in page.get("/api/papers").json()["papers"]}
    assert "gs-graph1" in names
    for name in ("gs-graph1", "..%2F..%2Fpyproject.toml", "x"):
        assert page.get(f"/api/papers/{name}.png").status in (400, 404)


def in_making(line: str, held: threading.Event, said: list[str]) -> Dashboard:
    """A dashboard whose run goes on when it is let go."""

    def wait(_: str) -> None:
        held.wait()

    shown = dashboard()
    shown.making = PendingRun(*parse_line(line), wait, said.append)
    shown.sampler = Sampler(shown.making)
    return shown


def test_a_page_is_served_while_its_run_is_simulated_and_says_how_far_it_is() -> None:
    held, said = threading.Event(), list[str]()
    with served(in_making(SMALL.replace("20", "400"), held, said)) as page:
        try:
            assert page.get("/cluster").status == 200
            assert page.get("/api/cluster").json()["running"].startswith("running: ")
            listed = page.get("/api/replay").json()
            assert listed["runs"] == []
            assert listed["running"].startswith("running: ")
        finally:
            held.set()
        while "running" in (found := page.get("/api/cluster").json()):
            time.sleep(0.01)
        assert "A simulated feed" in found["note"]
        assert "sampled once a second" in found["note"]
        listed = page.get("/api/replay").json()
        assert (len(listed["runs"]), listed["running"]) == (1, "")
    assert [line.startswith("the run is there") for line in said] == [True]


def test_a_run_that_fails_is_told_on_the_page() -> None:
    held, said = threading.Event(), list[str]()
    held.set()
    shown = in_making(SMALL, held, said)
    assert shown.making is not None
    shown.making._config = replace(shown.making._config, messages=-1)
    with served(shown) as page:
        while (found := page.get("/api/cluster")).status == 200:
            time.sleep(0.01)
        assert found.json()["error"].startswith("messages: -1")
    assert said == [found.json()["error"]]


def test_a_server_without_control_only_looks() -> None:
    shown = dashboard(TOKEN)
    trace, history = run_config(*parse_line(SMALL))
    shown.runs.add(trace, history)
    shown.sampler = Sampler(TraceFeed(trace))
    with served(shown) as found:
        pass_ = {"authorization": f"Bearer {TOKEN}"}
        assert found.get("/api/cluster", **pass_).json()["control"] is None
        kill = {"action": "kill", "site": "a"}
        refused = found.post("/api/cluster/control", kill, **pass_)
        assert refused.status == 400
        assert "--control" in refused.json()["error"]
        detail = found.get("/api/cluster/site?site=b", **pass_).json()
        assert detail["groups"] == ["alpha", "beta"]
        assert found.get("/api/cluster/site?site=%3Cb%3E", **pass_).status == 400
        pictures = found.get("/api/cluster/pictures?width=800", **pass_).json()
        assert "fo-edge" in pictures["forest"]


def test_controls_without_a_token_are_not_served() -> None:
    shown = dashboard()
    trace, _ = run_config(*parse_line(SMALL))
    shown.sampler = Sampler(TraceFeed(trace))
    place = LocalDestination.__new__(LocalDestination)
    shown.controls = Controls(place, shown.sampler)
    with pytest.raises(ValueError, match="token"):
        make_app(shown)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nothing.toml"], "nothing.toml"),
        (["."], "is a folder without meta.json"),
        (["--host", "0.0.0.0"], "TLS and a token"),
        (["--control"], "--control goes with a cluster"),
        (["--port", "70000"], "not a port"),
        (["--token-file", "none"], "none"),
        (["--papers", "none"], "has written nothing"),
    ],
)
def test_the_verb_refuses_in_one_line(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["dashboard", *words]) == 2
    err = capsys.readouterr().err
    assert told in err
    assert err.count("\n") == 1
