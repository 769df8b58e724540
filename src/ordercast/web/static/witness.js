// Witness: every check's verdict on a run or a history, and each violation drawn.
import { ask, by, drawing, latest, make, number, tell, whenMade } from "/static/dom.js";

const judge = latest(async () => {
  const run = by("runs").value;
  if (!run) return;
  by("facts").textContent = "judging…";
  const found = await ask(`/api/replay/${run}/witnesses?causal=${by("causal").checked ? 1 : 0}`);
  const report = found.report;
  by("facts").replaceChildren(
    make("b", {}, found.title), make("span", {}, `${number(report.rows)} deliveries of ${number(report.messages)} messages at ${number(report.sites)} sites`),
    make("span", {}, `judged in ${number(report.seconds, 2)} s`),
    make("b", { class: report.ok && !found.besides.length ? "good" : "bad" }, report.ok && !found.besides.length ? "no violation" : "violations"),
  );
  const told = new Map(found.pictures.map((one) => [one.check, one.told]));
  by("checks").tBodies[0].replaceChildren(...Object.entries(report.checks).map(([check, count]) => make("tr", {}, make("td", {}, check.replaceAll("_", " ")), make("td", { class: `n ${count ? "bad" : "good"}` }, count ? number(count) : "ok"), make("td", {}, told.get(check) ?? ""))),
    ...Object.entries(report.informative).filter(([, count]) => count).map(([name, count]) => make("tr", {}, make("td", { class: "quiet" }, name), make("td", { class: "n" }, number(count)), make("td", { class: "quiet" }, "counted, not wrong"))));
  by("pictures").replaceChildren(
    ...found.pictures.map((one) => make("section", { class: "card", data: { check: one.check } }, make("h2", {}, one.check.replaceAll("_", " "), ": ", make("span", { class: "bad" }, one.told)), make("div", { class: "forest" }, drawing(one.svg)), make("details", {}, make("summary", { class: "quiet" }, "the witness as data"), make("pre", { class: "mono" }, JSON.stringify(one.witness, null, 1))))),
    ...found.besides.map((one) => make("section", { class: "card" }, make("h2", { class: "bad" }, one.check.replaceAll("_", " ")), make("pre", { class: "mono" }, JSON.stringify(one.witness, null, 1)))),
  );
});

async function list(chosen) {
  const { runs, stores } = await whenMade("/api/replay", (told) => { by("facts").textContent = told; }, (found) => found.runs.length || !found.running);
  by("stores").hidden = !stores;
  by("runs").replaceChildren(...runs.map((one) => make("option", { value: one.run }, `${one.run}. ${one.title}`)));
  if (runs.length) by("runs").value = chosen ?? runs.at(-1).run;
  else by("facts").textContent = stores ? "Read the stores, or run something on the page Replay." : "Run something on the page Replay.";
  judge();
}

by("runs").addEventListener("change", judge);
by("causal").addEventListener("change", judge);
by("stores").addEventListener("click", async () => {
  try { await list((await ask("/api/replay", { stores: true })).run); } catch (error) { tell(error.message); }
});
list().catch((error) => tell(error.message));
