// Replay: a window of the run as a space–time diagram, a cursor in it, and the cluster as of the cursor.
import { ask, by, drawing, latest, make, number, tell, time, whenMade } from "/static/dom.js";

const state = { run: 0, facts: null, at: 0, start: 0, wide: 1e6, follow: "", left: 0, right: 1, playing: false, before: null, after: null, epochs: "" };
const base = () => `/api/replay/${state.run}`;
const stop = () => state.start + state.wide;

const picture = latest(async () => {
  const place = by("diagram");
  const width = Math.max(320, Math.round(place.clientWidth));
  const query = new URLSearchParams({ start: Math.round(state.start), stop: Math.round(stop()), width, voting: by("voting").checked ? 1 : 0, quiet: by("quiet").checked ? 1 : 0, follow: state.follow });
  const found = await ask(`${base()}/picture?${query}`);
  const cursor = make("div", { class: "cursor", id: "cursor" });
  place.replaceChildren(drawing(found.svg), cursor);
  state.left = found.left / width;
  state.right = found.right / width;
  by("sampled").textContent = found.shown < found.found ? `This window has ${number(found.found)} arrows; a sample of ${number(found.shown)} is drawn. Zoom in to see all.` : "";
  move();
});

const cluster = latest(async () => {
  const at = Math.round(state.at);
  const found = await ask(`${base()}/state?at=${at}`);
  state.before = found.before;
  state.after = found.after;
  by("state-at").textContent = time(at);
  by("states").tBodies[0].replaceChildren(...found.sites.map(row));
  for (const entry of by("epochs").children) entry.classList.toggle("now", found.epochs.includes(Number(entry.dataset.epoch)));
  const now = found.epochs.join(", ");
  if (now !== state.epochs) {
    state.epochs = now;
    by("epoch-now").textContent = `${now ? `epoch ${now}` : ""}${state.facts.forest ? "" : " (its sites only: a history does not have the forest)"}`;
    const shown = await ask(`${base()}/forest?at=${at}`);
    by("forest").replaceChildren(...(shown.svg ? [drawing(shown.svg)] : []));
    by("forest").firstElementChild?.classList.add("fit");
  }
});

function row(site) {
  const last = site.last ? site.last.split("/") : null;
  const told = last ? `${last[0]} ${last[2]} ${last[3]}` : "–";
  return make("tr", { data: site.last ? { message: site.last } : {} },
    make("td", {}, site.site), make("td", { class: "state" }, make("i", { class: `dot ${site.state}` }), site.state),
    make("td", { class: "n" }, site.epoch || "–"), make("td", { class: "n" }, number(site.position)),
    make("td", { class: "mono" }, told), make("td", { class: "n" }, number(site.sent)), make("td", { class: "n" }, number(site.coming)));
}

// Put the cursor where `state.at` is, and turn the page if it has left the window.
function move() {
  by("clock").textContent = time(Math.round(state.at));
  by("scrub").value = state.at;
  const cursor = by("cursor");
  if (!cursor) return;
  const share = (state.at - state.start) / state.wide;
  cursor.hidden = share < 0 || share > 1;
  cursor.style.left = `${100 * (state.left + (state.right - state.left) * share)}%`;
}

function go(at, { keep = false } = {}) {
  const length = state.facts.length;
  state.at = Math.max(0, Math.min(length, at));
  if (!keep && (state.at < state.start || state.at > stop())) {
    const ahead = state.at > stop();
    state.start = Math.max(0, ahead ? state.at - state.wide * 0.1 : state.at - state.wide * 0.5);
    picture();
  }
  move();
  cluster();
}

function zoom(factor) {
  const middle = state.at;
  const share = Math.min(1, Math.max(0, (middle - state.start) / state.wide));
  state.wide = Math.max(1000, Math.min(state.facts.length * 1.02 + 1000, state.wide * factor));
  state.start = Math.max(0, middle - share * state.wide);
  picture();
}

let last = 0;
function frame(now) {
  if (!state.playing) return;
  const passed = last ? Math.min(100, now - last) : 0;
  last = now;
  go(state.at + passed * 1e6 * Number(by("speed").value));
  if (state.at >= state.facts.length) play(false);
  else requestAnimationFrame(frame);
}

function play(on) {
  state.playing = on;
  last = 0;
  by("play").textContent = on ? "❚❚" : "▶";
  by("play").setAttribute("aria-label", on ? "Pause" : "Play");
  if (on) {
    if (state.at >= state.facts.length) state.at = 0;
    requestAnimationFrame(frame);
  }
}

async function follow(message) {
  state.follow = message;
  by("journey-card").hidden = !message;
  picture();
  if (!message) return;
  try {
    const found = await ask(`${base()}/message?${new URLSearchParams({ message })}`);
    by("journey-name").textContent = message;
    by("journey").replaceChildren(...found.steps.map(step));
  } catch (error) {
    tell(error.message);
  }
}

function step(one) {
  const words = {
    send: () => `${one.site} sends it`,
    deliver: () => `${one.site} delivers it at position ${one.position}${one.attempt > 1 ? `, attempt ${one.attempt}` : ""}, epoch ${one.epoch}`,
    frame: () => `${one.site} → ${one.peer}: ${one.words}${one.arrives === null ? " (lost)" : `, arrives ${time(one.arrives)}`}`,
  }[one.kind] ?? (() => `${one.site}: ${one.kind}`);
  return make("li", { class: one.kind, data: { kind: one.kind, site: one.site, position: one.position ?? "" }, onclick: () => go(one.at) }, make("time", {}, time(one.at)), make("span", {}, words()));
}

async function open(run) {
  state.run = run;
  state.facts = await ask(base());
  const facts = state.facts;
  const wrong = facts.violations.length;
  by("facts").replaceChildren(...[
    make("span", {}, make("b", {}, facts.title)), make("span", {}, `${number(facts.sites.length)} sites`),
    make("span", {}, `${number(facts.sent)} messages, ${number(facts.delivered)} deliveries, ${number(facts.arrows)} arrows`),
    make("span", {}, `${time(facts.length)}`),
    wrong ? make("span", { class: "bad" }, `${wrong} violation${wrong > 1 ? "s" : ""}: ${facts.violations.map((v) => v.check).join(", ")}`) : null,
    facts.command ? make("code", {}, facts.command) : null,
    ...facts.notes.map((note) => make("span", {}, note)),
  ].filter(Boolean));
  by("scrub").max = facts.length;
  by("epochs").replaceChildren(...facts.epochs.map((e) => make("li", { data: { epoch: e.epoch }, onclick: () => go(e.at) }, make("time", {}, time(e.at)), make("span", {}, `epoch ${e.epoch}: ${e.protocol}, ${e.reason}`))));
  Object.assign(state, { at: 0, start: 0, wide: Math.min(facts.length * 1.02 + 1000, facts.window * Math.min(1, 0.25 + by("diagram").clientWidth / 1600)), epochs: "", follow: "" });
  by("journey-card").hidden = true;
  play(false);
  const first = new URLSearchParams(location.hash.slice(1));
  if (first.has("at")) go(Number(first.get("at")));
  picture();
  cluster();
  if (first.get("message")) follow(first.get("message"));
}

async function list(chosen) {
  const { runs, stores } = await whenMade("/api/replay", (told) => { by("facts").textContent = told; }, (found) => found.runs.length || !found.running);
  by("stores").hidden = !stores;
  by("runs").replaceChildren(...runs.map((one) => make("option", { value: one.run, selected: one.run === chosen }, `${one.run}. ${one.title}`)));
  const wanted = chosen ?? Number(new URLSearchParams(location.hash.slice(1)).get("run") || runs.at(-1)?.run || 0);
  if (wanted) { by("runs").value = wanted; await open(wanted); } else by("facts").textContent = "There is no run yet: ask for one above.";
}

by("runs").addEventListener("change", () => open(Number(by("runs").value)).catch((error) => tell(error.message)));
by("new-run").addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = event.target.querySelector("button");
  button.disabled = true;
  try {
    const { run } = await ask("/api/replay", { line: by("line").value });
    event.target.closest("details").open = false;
    await list(run);
  } catch (error) { tell(error.message); } finally { button.disabled = false; }
});
by("stores").addEventListener("click", async () => {
  try { await list((await ask("/api/replay", { stores: true })).run); } catch (error) { tell(error.message); }
});
by("scrub").addEventListener("input", () => go(Number(by("scrub").value)));
by("play").addEventListener("click", () => play(!state.playing));
by("back").addEventListener("click", () => state.before !== null && go(state.before));
by("forth").addEventListener("click", () => state.after !== null && go(state.after));
by("in").addEventListener("click", () => zoom(0.5));
by("out").addEventListener("click", () => zoom(2));
by("voting").addEventListener("change", picture);
by("quiet").addEventListener("change", picture);
by("unfollow").addEventListener("click", () => follow(""));
by("diagram").addEventListener("click", (event) => {
  const hit = event.target.closest("[data-message]");
  if (hit) { follow(hit.dataset.message); return; }
  const box = by("diagram").getBoundingClientRect();
  const share = ((event.clientX - box.left) / box.width - state.left) / (state.right - state.left);
  if (share >= 0 && share <= 1) go(state.start + share * state.wide, { keep: true });
});
by("states").addEventListener("click", (event) => {
  const hit = event.target.closest("[data-message]");
  if (hit) follow(hit.dataset.message);
});
document.addEventListener("keydown", (event) => {
  if (event.target.closest("textarea, select, input:not([type=range]):not([type=checkbox])") || event.ctrlKey || event.metaKey || !state.facts) return;
  const act = {
    " ": () => play(!state.playing), ArrowLeft: () => by("back").click(), ArrowRight: () => by("forth").click(),
    "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), Home: () => go(0), End: () => go(state.facts.length), Escape: () => follow(""),
  }[event.key];
  if (!act || (event.key === " " && event.target.closest("button, summary"))) return;
  event.preventDefault();
  act();
});
let resized = 0;
addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(() => state.facts && picture(), 150); });
list().catch((error) => tell(error.message));
