// Planner: groups as text, the builders' forests beside each other with their figures, and why.
import { ask, by, drawing, latest, make, number } from "/static/dom.js";

const items = (texts) => texts.map((text) => make("li", {}, text));

function builder(one) {
  const f = one.figures;
  const rows = [
    ["estimated delay", f.delay_ms === null ? "overloaded" : `${number(f.delay_ms, 2)} ms`], ["depth", `${number(f.depth_mean, 2)} on average, ${number(f.depth_max)} at most`],
    ["extra sites", `${number(f.extra_mean, 2)} per group`], ["highest load", `${number(f.load_max)} at ${f.busiest}`],
    ["messages per send", number(f.messages, 2)], ["busiest is busy", `${number(100 * f.utilisation, 1)} %`],
  ];
  const svg = one.svg ? drawing(one.svg) : null;
  svg?.classList.add("fit");
  return make("section", { class: `card builder${one.chosen ? " chosen" : ""}`, data: { builder: one.builder } },
    make("h2", {}, one.builder, one.chosen ? make("span", { class: "tag" }, "recommended") : ""), make("dl", { class: "facts2" }, ...rows.flatMap(([key, value]) => [make("dt", {}, key), make("dd", {}, value)])),
    make("div", { class: "forest" }, svg ?? make("p", { class: "quiet" }, "Too many sites to draw here: ordercast plan --draw shows the levels.")), one.detail ? make("p", { class: "quiet" }, one.detail) : "");
}

const plan = latest(async () => {
  let found;
  try {
    found = await ask("/api/plan", { groups: by("groups").value, objective: by("objective").value });
  } catch (error) {
    by("mistake").textContent = error.message;
    return;
  }
  by("mistake").textContent = "";
  by("chosen").textContent = found.chosen;
  by("size").textContent = `${found.summary}; ${number(found.seconds, 3)} s`;
  by("reasons").replaceChildren(...items(found.reasons));
  by("sim").textContent = found.sim;
  by("builders").replaceChildren(...found.builders.map(builder));
  const [head, ...rows] = found.protocols;
  by("protocols").tHead.replaceChildren(make("tr", {}, ...head.slice(1).map((cell) => make("th", {}, cell))));
  by("protocols").tBodies[0].replaceChildren(...rows.map((row) => make("tr", { class: row[0] ? "chosen" : "" }, ...row.slice(1).map((cell) => make("td", {}, cell)))));
  by("protocol-reasons").replaceChildren(...items(found.protocol_reasons));
});

let typed = 0;
by("groups").addEventListener("input", () => { clearTimeout(typed); typed = setTimeout(plan, 500); });
by("objective").addEventListener("change", plan);
by("plan").addEventListener("submit", (event) => { event.preventDefault(); plan(); });
ask("/api/plan").then((found) => { by("groups").value = found.groups; plan(); }, (error) => { by("mistake").textContent = error.message; });
