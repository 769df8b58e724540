// Cluster: the forest with live rates, the sites, the groups, the epochs; a click shows more of a site.
import { ask, by, bytes, drawing, latest, make, number, tell, time, whenMade } from "/static/dom.js";
import { chart } from "/static/chart.js";

const state = { shape: "", passages: -1, chosen: "", view: null, rows: new Map(), boxes: new Map(), rates: new Map(), edges: new Map() };
let rateChart, lagChart;

const pictures = latest(async () => {
  const width = Math.max(300, Math.round(by("timeline").clientWidth));
  const found = await ask(`/api/cluster/pictures?width=${width}`);
  state.shape = found.shape;
  state.passages = found.passages.length;
  const svg = drawing(found.forest);
  by("forest").replaceChildren(svg);
  const wide = svg.viewBox.baseVal.width;
  if (wide < by("forest").clientWidth * 1.8) svg.classList.add("fit");
  state.boxes = new Map([...svg.querySelectorAll(".fo-box")].map((e) => [e.dataset.site, e]));
  state.rates = new Map([...svg.querySelectorAll("[data-rate]")].map((e) => [e.dataset.rate, e]));
  state.edges = new Map([...svg.querySelectorAll(".fo-edge")].map((e) => [e.dataset.child, e]));
  by("timeline").replaceChildren(...(found.timeline ? [drawing(found.timeline)] : []));
  for (const label of by("timeline").querySelectorAll("[data-at]")) if (Number(label.dataset.at) >= 1e15) write(label, clock(Number(label.dataset.at)));
  by("passages").replaceChildren(...found.passages.map(passage));
  if (!found.passages.length) by("passages").replaceChildren(make("li", {}, make("span", { class: "quiet" }, "None has opened since the daemons started.")));
  if (state.view) paint(state.view);
});

// A simulated run begins at 0; a cluster has the time of the day, here in the reader's zone.
function clock(ns) {
  return ns < 1e15 ? time(ns) : new Date(ns / 1e6).toLocaleTimeString("en-GB");
}

function passage(one) {
  const pause = one.pause_ms === null ? "" : `, pause ${number(one.pause_ms, 1)} ms`;
  return make("li", { data: { epoch: one.epoch } }, make("time", {}, clock(Number(one.at_ns))), make("span", {}, `epoch ${one.epoch}: ${one.reason || "start"} (${one.protocol}, ${one.sites.length} sites${pause})`));
}

// --- what a sample changes: only what differs is written, so 200 sites cost little ------------------

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function siteRow(name) {
  const cells = ["", "state", "n", "n", "n", "n", "n", "", "n", "n"].map((kind) => make("td", { class: kind }));
  const row = make("tr", { data: { site: name }, tabindex: 0 }, ...cells);
  write(cells[0], name);
  const dot = make("i", { class: "dot" }), word = make("span", {});
  cells[1].append(dot, word);
  const fill = make("i", {}), value = make("span", {});
  cells[6].append(value, make("span", { class: "meter" }, fill));
  return { row, cells, dot, word, value, fill };
}

function sites(view) {
  const body = by("sites").tBodies[0];
  const names = view.sites.map((site) => site.site);
  if (names.length !== state.rows.size || names.some((name) => !state.rows.has(name))) {
    state.rows = new Map(names.map((name) => [name, siteRow(name)]));
    body.replaceChildren(...names.map((name) => state.rows.get(name).row));
  }
  for (const site of view.sites) {
    const { row, cells, dot, word, value, fill } = state.rows.get(site.site);
    const known = site.position > 0 || site.links > 0 || site.state === "up";
    const marks = [site.is_manager ? "manager" : "", view.excluded.includes(site.site) ? "excluded" : ""].filter(Boolean).join(", ");
    dot.className = `dot ${site.state}`;
    write(word, site.state + (marks ? ` (${marks})` : ""));
    row.title = [...site.reasons, ...site.warnings].join("; ");
    row.classList.toggle("chosen", site.site === state.chosen);
    write(cells[2], known ? number(site.epoch) : "");
    write(cells[3], known ? number(site.position) : "");
    write(cells[4], known ? number(site.rate, 1) : "");
    write(cells[5], known ? number(site.lag) : "");
    const used = site.window ? site.window[0] / site.window[1] : 0;
    write(value, site.window ? number(site.window[0]) : "");
    fill.style.width = `${Math.min(100, 100 * used)}%`;
    fill.classList.toggle("high", used > 0.8);
    fill.parentElement.hidden = !site.window;
    write(cells[7], site.held_by.join(", "));
    write(cells[8], known ? number(site.queued) : "");
    write(cells[9], known && site.links ? `${site.links_up}/${site.links}` : "");
  }
}

function paint(view) {
  for (const site of view.sites) {
    const box = state.boxes.get(site.site);
    if (!box) continue;
    box.classList.toggle("down", site.state === "down");
    box.classList.toggle("unwell", site.state === "unwell");
    box.classList.toggle("chosen", site.site === state.chosen);
  }
  for (const [parent, child, rate, link] of view.edges) {
    const label = state.rates.get(child), edge = state.edges.get(child);
    if (label) write(label, link !== "connected" && link !== "unknown" ? link : rate === null ? "" : `${bytes(rate)}/s`);
    if (edge && edge.dataset.parent === parent) edge.style.strokeWidth = `${rate ? Math.min(7, 1.5 + Math.log10(1 + rate / 100)) : 1.5}px`;
  }
}

function figure(label, value, kind = "") {
  return make("div", {}, make("small", {}, label), make("b", { class: kind }, value));
}

function summary(view) {
  const up = view.sites.filter((site) => site.state === "up").length;
  const all = view.sites.length;
  by("figures").replaceChildren(
    figure("sites up", `${up} of ${all}`, up === all ? "good" : "bad"), figure("deliveries per second", view.rate === null ? "…" : number(view.rate)),
    figure("groups", number(view.groups.length)), figure("manager", view.manager ?? "–"),
    figure("open epoch", view.epochs.join(", ") || "–"), figure("protocol", view.protocols.join(", ") || "–"),
    figure("excluded", view.excluded.join(", ") || "none", view.excluded.length ? "warn" : ""),
    ...(view.apart.length ? [figure("do not hear each other", view.apart.map((pair) => pair.join("–")).join(", "), "bad")] : []),
    ...(view.changes.length || view.flushing ? [figure("under way", view.changes.map((c) => c.edits.join("; ") || c.change).join(", ") || "a flush", "warn")] : []),
  );
  write(by("epoch-now"), view.epochs.length ? `epoch ${view.epochs.join(", ")}` : "");
  const holders = view.holders.slice(0, 3).map(([holder, held]) => `${holder} holds the window of ${held.length > 4 ? `${held.length} sites` : held.join(", ")}`);
  write(by("holders"), holders.length ? holders.join("; ") : "Nobody holds a window.");
  const slow = view.took_s > view.every_s ? ` The last answer took ${number(view.took_s, 1)} s, so it samples less often.` : "";
  write(by("note"), `${state.note}${slow}${view.trouble ? ` ${view.trouble}` : ""}`);
}

function groups(view) {
  const body = by("groups").tBodies[0];
  const shown = view.groups.slice(0, 300);
  while (body.rows.length > shown.length) body.lastElementChild.remove();
  while (body.rows.length < shown.length) body.append(make("tr", {}, make("td"), make("td"), make("td"), make("td"), make("td", { class: "n" })));
  shown.forEach((group, i) => {
    const cells = body.rows[i].cells;
    write(cells[0], group.group + (group.frozen.length ? " (frozen)" : ""));
    write(cells[1], group.primary || "–");
    write(cells[2], group.members.length > 8 ? `${group.members.slice(0, 6).join(", ")} and ${group.members.length - 6} more` : group.members.join(", "));
    write(cells[3], group.extra.join(", ") || "–");
    write(cells[4], number(group.sent_rate, 1));
  });
}

function show(view) {
  const select = by("switch").querySelector("select");
  if (!state.view && select && view.protocols.length) select.value = view.protocols[0];
  state.view = view;
  if (view.shape !== state.shape || view.passages !== state.passages) pictures();
  summary(view);
  sites(view);
  paint(view);
  groups(view);
  if (view.point) { rateChart.add([view.point[0], view.point[1]]); lagChart.add([view.point[0], view.point[2], view.point[3]]); }
  if (state.chosen) detail();
}

// --- figures of the stream, window by window ----------------------------------------------------------

const STREAM_MS = 3000;
let streaming = 0, latencyChart = null, shownWindow = null;

function since(start) {
  const at = new Date(start * 1000), ago = Date.now() / 1000 - start;
  return ago < 3600 ? `${at.toLocaleTimeString("en-GB")}, ${number(ago)} s ago` : at.toLocaleString("en-GB");
}

const stream = latest(async () => {
  const found = await ask("/api/cluster/stream");
  if (!found) { clearInterval(streaming); return; } // the server was given none
  by("stream").hidden = false;
  const rest = found.left_out ? `; ${number(found.left_out)} more lines are not shown` : "";
  write(by("stream-note"), found.start === null ? `${found.folder} has no window yet` : `${found.folder}: a window of ten seconds, from ${since(found.start)}${rest}`);
  if (found.start === shownWindow) return;
  shownWindow = found.start;
  const points = found.points.map(([t, , p50, p99, lag]) => [t, p50, p99, lag]);
  if (!latencyChart) latencyChart = chart(by("latency-chart"), ["highest p50, ms", "highest p99, ms", "highest lag, ms"], points);
  else points.forEach((point) => latencyChart.add(point));
  by("stream-lines").tBodies[0].replaceChildren(...found.lines.map((line) => make("tr", { data: { site: line.site } },
    make("td", {}, line.group), make("td", {}, line.site), ...[line.rate, line.load, line.latency_p50_ms, line.latency_p99_ms, line.latency_max_ms, line.behind, line.lag_ms].map((value) => make("td", { class: "n" }, number(value, 1))))));
});

// --- one site ---------------------------------------------------------------------------------------

const detail = latest(async () => {
  const name = state.chosen;
  if (!name) return;
  const site = await ask(`/api/cluster/site?${new URLSearchParams({ site: name })}`);
  if (name !== state.chosen) return;
  write(by("detail-name"), name);
  const rows = [
    ["state", [site.state, site.standing].filter(Boolean).join(", ")], ["why", [...site.reasons, ...site.warnings].join("; ")],
    ["orders", site.orders.join(", ")], ["in groups", site.groups.join(", ")], ["extra for", site.extra_for.join(", ")],
    ["epoch", site.epoch || ""], ["protocol", site.protocol], ["position", number(site.position)], ["deliveries", site.rate === null ? "" : `${number(site.rate, 1)}/s`],
    ["lag", number(site.lag)], ["window", site.window.limit > 1 ? `${number(site.window.value)} of ${number(site.window.limit)}` : ""], ["held by", site.held_by.join(", ")],
    ["not stable", number(site.unstable)], ["waits for", site.unstable_by.join(", ")], ["queued", number(site.queued)],
    ["fullest queue", site.fullest.limit ? `${site.fullest.name}: ${number(site.fullest.value)} of ${number(site.fullest.limit)}` : ""],
    ["store", site.store_bytes ? bytes(site.store_bytes) : ""], ["version", site.version], ["clients", site.clients || ""],
    ...site.stream.map((line) => [`stream: ${line.group}`, `${number(line.rate, 1)}/s, p50 ${number(line.latency_p50_ms, 1)} ms, p99 ${number(line.latency_p99_ms, 1)} ms, lag ${number(line.lag_ms, 1)} ms`]),
  ].filter(([, value]) => value !== "");
  const list = make("dl", { class: "facts2" }, ...rows.flatMap(([key, value]) => [make("dt", {}, key), make("dd", {}, value)]));
  const links = site.link_list.slice(0, 60).map((link) => make("tr", {}, make("td", {}, link.peer), make("td", { class: "state" }, make("i", { class: `dot ${link.state === "connected" ? "up" : "down"}` }), link.through ? `through ${link.through}` : link.state), make("td", { class: "n" }, link.in_rate === null ? "" : `${bytes(link.in_rate)}/s`), make("td", { class: "n" }, link.out_rate === null ? "" : `${bytes(link.out_rate)}/s`)));
  const table = links.length ? make("div", { class: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, make("th", {}, "link to"), make("th", {}, "state"), make("th", { class: "n" }, "in"), make("th", { class: "n" }, "out"))), make("tbody", {}, ...links))) : "";
  by("detail-body").replaceChildren(list, table);
  document.dispatchEvent(new CustomEvent("site", { detail: site }));
});

function choose(name) {
  if (name !== state.chosen) { // what is offered is for the site before: it must not act on it
    offered = "";
    by("actions").replaceChildren();
    by("actions").hidden = true;
  }
  state.chosen = name;
  detail();
  if (state.view) { sites(state.view); paint(state.view); }
}

for (const place of ["forest", "sites", "stream-lines"]) {
  const pick = (event) => {
    const hit = event.target.closest("[data-site]");
    if (hit) choose(hit.dataset.site);
    return hit;
  };
  by(place).addEventListener("click", pick);
  by(place).addEventListener("keydown", (event) => {
    if ((event.key === "Enter" || event.key === " ") && pick(event)) event.preventDefault();
  });
}

// --- control: only if the server offers it ------------------------------------------------------------

async function act(body, button) {
  button.disabled = true;
  try { tell((await ask("/api/cluster/control", body)).done); } catch (error) { tell(error.message); } finally { button.disabled = false; }
}

// A button that asks once more before it acts.
function sure(label, question, work) {
  const button = make("button", { type: "button", class: "danger" }, label);
  let asked = 0;
  button.addEventListener("click", () => {
    if (asked) { clearTimeout(asked); asked = 0; button.textContent = label; work(button); return; }
    button.textContent = question;
    asked = setTimeout(() => { asked = 0; button.textContent = label; }, 4000);
  });
  return button;
}

function chooser(label, names, work) {
  const select = make("select", { "aria-label": label }, ...names.map((name) => make("option", { value: name }, name)));
  const button = make("button", { type: "button" }, label);
  button.addEventListener("click", () => work(select.value, button));
  return make("span", { class: "chooser" }, select, button);
}

let offered = "";
document.addEventListener("site", (event) => {
  if (!state.control) return;
  const site = event.detail, place = by("actions");
  const key = JSON.stringify([site.site, site.groups, site.elsewhere, site.state]);
  place.hidden = false;
  if (key === offered) return; // do not take a control away from under the pointer
  offered = key;
  const before = new Map([...place.querySelectorAll("select")].map((select) => [select.ariaLabel, select.value]));
  const may = (name) => state.control.actions.includes(name);
  place.replaceChildren(...[
    site.elsewhere.length && chooser("join", site.elsewhere, (group, button) => act({ action: "join", site: site.site, group }, button)),
    site.groups.length && chooser("leave", site.groups, (group, button) => act({ action: "leave", site: site.site, group }, button)),
    may("kill") && site.state !== "down" && sure("kill", `really kill ${site.site}?`, (button) => act({ action: "kill", site: site.site }, button)),
  ].filter(Boolean));
  for (const select of place.querySelectorAll("select")) { // a choice outlives a change of the list
    const kept = before.get(select.ariaLabel);
    if ([...select.options].some((option) => option.value === kept)) select.value = kept;
  }
});

function offer(control) {
  state.control = control;
  if (!control) return;
  by("switch").replaceChildren(chooser("switch protocol", control.protocols, (protocol, button) => act({ action: "switch", protocol }, button)));
}

// --- the feed ---------------------------------------------------------------------------------------

async function begin() {
  const found = await whenMade("/api/cluster", (told) => write(by("note"), told));
  state.note = found.note;
  offer(found.control);
  rateChart = chart(by("rate-chart"), ["deliveries/s"], found.points.map((p) => [p[0], p[1]]));
  lagChart = chart(by("lag-chart"), ["lag", "not stable"], found.points.map((p) => [p[0], p[2], p[3]]));
  const source = new EventSource("/api/cluster/samples");
  source.addEventListener("sample", (event) => show(JSON.parse(event.data)));
  source.addEventListener("trouble", (event) => tell(JSON.parse(event.data)));
  source.onerror = () => tell("The server does not answer; trying again…");
  addEventListener("pagehide", () => source.close());
}

begin().then(() => { streaming = setInterval(stream, STREAM_MS); stream(); }).catch((error) => tell(error.message));
