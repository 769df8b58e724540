"""The web page in a real browser, about a cluster of real processes.

One cluster, one dashboard, one browser for all: the tests go on from what those before have done.
"""

import json
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from ordercast.history.rows import History
from ordercast.model.groups import parse_groups
from ordercast.net.cluster.processes import running
from ordercast.net.export.history import collect
from ordercast.plan.advice import advise
from ordercast.sim.trace.space_time import message_key
from ordercast.studies.catalogue import CATALOGUE
from processes.daemons import Daemons, up
from support.cases.stream_figures import write_figures
from support.harness.browser import browsing, listen
from support.harness.commands import needed

GROUPS = {
    "alpha": ["a", "b", "c"],
    "beta": ["c", "d"],
    "gamma": ["d", "e"],
}
FILE = "cluster.toml"
SOON_MS = 20_000
SIGNS = {  # of a page that shows what it has
    "cluster": "#forest .fo-box",
    "replay": "#diagram svg",
    "witness": "#checks tbody td",
    "planner": "#builders .builder",
    "papers": ".paper",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemons]:
    needed("chromium")
    place = tmp_path_factory.mktemp("page")
    with up(place, groups=GROUPS, in_process=True, durability="os") as daemons:
        for group in GROUPS:
            daemons.good("send", FILE, group, "--count", "20", "--size", "9")
        daemons.in_process = False  # the browser's driver has an event loop here
        yield daemons


@pytest.fixture(scope="module")
def complaints() -> list[str]:
    return []


@pytest.fixture(scope="module")
def page(cluster: Daemons, complaints: list[str]) -> Iterator[Page]:
    write_figures(cluster.place / "figures", 1, 0, 1)
    words = ("dashboard", FILE, "--control", "--figures", "figures", "--port", "0", "--json")
    served = cluster.start(*words)
    try:
        assert served.stdout is not None
        url = json.loads(served.stdout.readline())["url"]
        with browsing() as browser:
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.set_default_timeout(SOON_MS)
            expect.set_options(timeout=SOON_MS)
            listen(page, complaints)
            page.goto(url)
            page.wait_for_url("**/cluster")
            yield page
    finally:
        served.terminate()
        served.communicate(timeout=30)


def go(page: Page, name: str) -> None:
    page.get_by_role("navigation").get_by_role("link", name=name).click()
    page.wait_for_url(f"**/{name.lower()}")


def drawn_parents(page: Page) -> dict[str, str | None]:
    edges = page.eval_on_selector_all(
        "#forest .fo-edge", "es => es.map(e => [e.dataset.child, e.dataset.parent])"
    )
    sites = page.eval_on_selector_all("#forest .fo-box", "es => es.map(e => e.dataset.site)")
    return {site: dict(edges).get(site) for site in sites}


def test_the_forest_has_the_parents_that_the_daemons_tell(page: Page, cluster: Daemons) -> None:
    page.wait_for_selector("#forest .fo-edge", state="attached")
    told = json.loads(cluster.run("status", FILE, "--json").stdout)["sites"]["a"]["epochs"]
    parents = {site: above for epoch in told for site, above in epoch["parents"].items()}
    assert len(parents) == 5
    assert drawn_parents(page) == parents
    primaries = {group["primary"] for epoch in told for group in epoch["groups"].values()}
    dark = page.eval_on_selector_all(
        "#forest .fo-primary", "es => es.map(e => e.dataset.site).sort()"
    )
    assert dark == sorted(primaries)


def test_a_site_shows_its_position_and_its_links(page: Page, cluster: Daemons) -> None:
    page.locator("#sites tr[data-site=c]").click()
    detail = page.locator("#detail-body")
    expect(detail).to_contain_text("alpha, beta")
    expect(detail.locator("tbody tr")).to_have_count(4)
    status = json.loads(cluster.run("status", FILE, "--json").stdout)["sites"]["c"]
    assert status["position"] == 40
    expect(page.locator("#sites tr[data-site=c] td").nth(3)).to_have_text("40")
    expect(page.locator("#note")).to_contain_text("once a second")


def test_figures_of_the_stream_stand_beside_those_of_the_sites(page: Page) -> None:
    rows = page.locator("#stream-lines tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.first).to_have_text("alphaa441.59.3122–")
    page.locator("#sites tr[data-site=a]").click()
    expect(page.locator("#detail-body")).to_contain_text("stream: alpha4/s, p50 1.5 ms, p99 9.3 ms")
    expect(page.locator("#latency-chart canvas")).to_be_visible()
    page.locator("#sites tr[data-site=c]").click()


def test_what_is_offered_is_never_for_the_site_before(page: Page) -> None:
    expect(page.locator("#actions button.danger")).to_be_visible()
    hidden = page.evaluate(
        "() => { document.querySelector('#sites tr[data-site=b]').click();"
        " return document.querySelector('#actions').hidden; }"
    )
    assert hidden


def test_the_page_joins_a_site_and_switches_the_protocol(page: Page, cluster: Daemons) -> None:
    page.locator("#sites tr[data-site=a]").click()
    join = page.locator("#actions .chooser", has=page.get_by_role("button", name="join"))
    join.locator("select").select_option("gamma")
    join.locator("button").click()
    expect(page.locator("#groups tr", has_text="gamma")).to_contain_text("a, d, e")
    page.locator("#switch select").select_option("centralized")
    page.locator("#switch button").click()
    expect(page.locator("#passages")).to_contain_text("centralized")
    expect(page.locator("#timeline svg [data-epoch]").first).to_be_visible()
    epochs = json.loads(cluster.run("status", FILE, "--json").stdout)["sites"]["a"]["epochs"]
    assert {epoch["protocol"] for epoch in epochs} == {"centralized"}
    assert "a" in next(e["groups"]["gamma"]["members"] for e in epochs if "gamma" in e["groups"])


def test_a_kill_from_the_page_is_seen_within_five_seconds(page: Page, cluster: Daemons) -> None:
    page.locator("#sites tr[data-site=e]").click()
    kill = page.locator("#actions button.danger")
    kill.click()
    expect(kill).to_have_text("really kill e?")
    kill.click()
    begun = time.monotonic()
    expect(page.locator("#sites tr[data-site=e]")).to_contain_text("down", timeout=5_000)
    assert time.monotonic() - begun < 5
    assert running(cluster.dir, "e") is None
    expect(page.locator("#forest .fo-box[data-site=e]")).to_have_class("fo-box down chosen")


def history_of(cluster: Daemons) -> History:
    return collect(cluster.dir)[1]


def test_a_message_is_followed_as_the_history_has_it(page: Page, cluster: Daemons) -> None:
    go(page, "Replay")
    page.get_by_role("button", name="Read the stores now").click()
    expect(page.locator("#facts")).to_contain_text("60 messages")
    history = history_of(cluster)
    page.locator("#diagram .st-deliver[data-message*='/alpha/']").first.click(force=True)
    name = page.locator("#journey-name")  # many lie there: the one on top is followed
    expect(name).to_contain_text("/alpha/")
    message = next(row.id for row in history.sent if message_key(row.id) == name.text_content())
    page.wait_for_selector("#diagram .st-deliver.followed", state="attached")
    shown = page.eval_on_selector_all(
        "#journey li.deliver", "es => es.map(e => [e.dataset.site, Number(e.dataset.position)])"
    )
    rows = [(row.site, row.position) for row in history.deliveries if row.id == message]
    assert len(rows) == 3
    assert sorted(map(tuple, shown)) == sorted(rows)


def test_a_run_is_scrubbed_and_stepped(page: Page) -> None:
    page.locator("summary", has_text="Another run").click()
    page.locator("#line").fill("ordercast sim --schedule --excluding --seed 3")
    page.get_by_role("button", name="Run it").click()
    expect(page.locator("#facts")).to_contain_text("--excluding")
    expect(page.locator("#states tbody tr").first).to_contain_text("up")
    length = float(page.locator("#scrub").get_attribute("max") or 0)
    page.locator("#scrub").evaluate(
        "(e, v) => { e.value = v; e.dispatchEvent(new Event('input')); }", length
    )
    positions = page.locator("#states tbody tr td:nth-child(4)")
    expect(positions.filter(has_text="0").first).to_be_visible()
    page.wait_for_function(
        "() => [...document.querySelectorAll('#states tbody tr')].some("
        "r => Number(r.cells[3].textContent) > 10)"
    )
    end = page.locator("#clock").text_content()
    page.locator("#diagram").focus()
    page.keyboard.press("ArrowLeft")
    page.wait_for_function("(end) => document.querySelector('#clock').textContent !== end", arg=end)
    page.keyboard.press("Home")
    expect(page.locator("#clock")).to_have_text("0 ms")
    page.keyboard.press("Space")
    page.wait_for_function("() => document.querySelector('#clock').textContent !== '0 ms'")
    page.keyboard.press("Space")


def test_a_history_without_violations_is_told_so(page: Page) -> None:
    go(page, "Witness")
    expect(page.locator("#facts")).to_contain_text("no violation")
    assert page.locator("#checks tbody td.good").count() >= 7


def test_the_planner_recommends_what_the_planner_recommends(page: Page) -> None:
    go(page, "Planner")
    expect(page.locator("#builders .builder")).to_have_count(3)
    text = '[groups]\none = ["a", "b", "c", "d"]\ntwo = ["c", "d", "e"]\nthree = ["a", "e"]\n'
    page.locator("#groups").fill(text)
    page.locator("#objective").select_option("load")
    plan = advise(parse_groups(text, source="t.toml"), objective="load")
    expect(page.locator("#chosen")).to_have_text(plan.chosen.builder)
    expect(page.locator(".builder.chosen .fo-box")).to_have_count(5)
    expect(page.locator("#reasons")).to_contain_text(plan.reasons[0])
    page.locator("#groups").fill('[groups]\none = ["<img src=x onerror=alert(1)>"]\n')
    expect(page.locator("#mistake")).to_contain_text("<img src=x")
    assert page.locator("img").count() == 0


def test_the_papers_are_all_there(page: Page) -> None:
    go(page, "Papers")
    expect(page.locator(".paper")).to_have_count(len(CATALOGUE))
    page.locator("#paper").select_option("[GS]")
    expect(page.locator("#gs-graph1")).to_be_visible()


PAGES = ("cluster", "replay", "witness", "planner", "papers")
_CONTRASTS = """() => {
  const parse = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const solid = (found) => found.length >= 3 && (found.length < 4 || found[3] > 0.5);
  const behind = (element) => {
    const box = element.closest(".fo-box")?.querySelector("rect");
    const fill = box ? parse(getComputedStyle(box).fill) : [];
    if (solid(fill)) return fill;
    for (let at = element; at; at = at.parentElement) {
      const found = parse(getComputedStyle(at).backgroundColor);
      if (solid(found)) return found;
    }
    return [255, 255, 255];
  };
  const found = new Map();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement, text = texts.currentNode.data.trim();
    if (!text || element.closest("[disabled], option, .skip, #told")) continue;
    if (!element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const svg = element instanceof SVGElement;
    const [one, other] = [parse(svg ? style.fill : style.color), behind(element)].map(light);
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    const name = `${element.localName}.${element.getAttribute("class") ?? ""}`;
    if (ratio < 4.5) found.set(name, `${name}: ${text.slice(0, 20)}: ${ratio.toFixed(2)}`);
  }
  return [...found.values()];
}"""


@pytest.mark.parametrize("width", [1280, 390])
def test_pages_fit_and_can_be_read_and_keys_go_round(page: Page, width: int) -> None:
    """Nothing is wider than the screen, and every text stands out from what is behind it."""
    page.set_viewport_size({"width": width, "height": 844})
    wrong = []
    for number, name in enumerate(PAGES, start=1):
        page.locator("body").press(str(number))
        page.wait_for_url(f"**/{name}")
        page.wait_for_load_state("load")  # before that it may have no style
        page.wait_for_selector(SIGNS[name], state="attached")
        page.emulate_media(color_scheme="light")
        wrong += [f"{name}, light: {line}" for line in page.evaluate(_CONTRASTS)]
        light = page.evaluate("getComputedStyle(document.body).color")
        page.emulate_media(color_scheme="dark")
        assert page.evaluate("getComputedStyle(document.body).color") != light
        wrong += [f"{name}, dark: {line}" for line in page.evaluate(_CONTRASTS)]
        if (found := page.evaluate("document.documentElement.scrollWidth")) > width:
            wrong.append(f"{name} is {found} pixels wide")
    assert wrong == []


def test_a_key_turns_the_theme(page: Page) -> None:
    before = page.evaluate("getComputedStyle(document.body).color")
    page.locator("body").press("t")
    assert page.evaluate("getComputedStyle(document.body).color") != before


def test_no_page_has_complained(page: Page, complaints: list[str]) -> None:
    """One line is the browser's own: the mistake of the planner is an answer 400."""
    assert page.url
    told = [line for line in complaints if "400 (Bad Request)" not in line]
    assert told == []
