// Papers: what each paper prints, beside what its reproduction measured.
import { ask, by, make, tell } from "/static/dom.js";

// Words between backticks are code.
const rich = (text) => text.split("`").map((part, i) => (i % 2 ? make("code", {}, part) : part));

function entry(one) {
  const verdicts = one.findings.map((finding) => make("tr", {}, make("td", { class: `verdict ${finding.verdict}` }, finding.verdict), make("td", {}, ...rich(finding.statement)), make("td", {}, ...rich(finding.measured))));
  const done = one.findings.length > 0;
  const here = done
    ? [make("h3", {}, "Measured here"), one.figure ? make("img", { src: `/api/papers/${one.name}.png`, alt: one.title, loading: "lazy" }) : "", make("p", { class: "quiet" }, one.run)]
    : [make("h3", {}, "Measured here"), make("p", { class: "quiet" }, "Not yet: ", make("code", {}, `ordercast reproduce --only ${one.name}`))];
  const table = done ? make("div", { class: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, make("th", {}, ""), make("th", {}, "statement"), make("th", {}, "measured"))), make("tbody", {}, ...verdicts))) : "";
  return make("section", { class: "card paper", id: one.name }, make("h2", {}, one.title, make("span", { class: "quiet" }, ` ${one.source}`)),
    make("div", { class: "two" }, make("div", {}, make("h3", {}, "The paper says"), ...one.says.map((words) => make("blockquote", {}, ...rich(words))), make("h3", {}, "How it is redone"), make("p", {}, ...rich(one.how))), make("div", {}, ...here)), table);
}

async function begin() {
  const found = await ask("/api/papers");
  const done = found.papers.filter((one) => one.findings.length).length;
  by("about").textContent = found.folder ? `${done} of ${found.papers.length} are redone in ${found.folder}.` : `Nothing is redone here yet: 'ordercast reproduce --quick --out out' takes minutes, and this page shows what it finds (--papers names another folder).`;
  const papers = [...new Set(found.papers.map((one) => one.source.split(" ")[0]))];
  by("paper").append(...papers.map((name) => make("option", { value: name }, name)));
  const show = () => by("list").replaceChildren(...found.papers.filter((one) => (!by("paper").value || one.source.split(" ")[0] === by("paper").value) && (!by("done").checked || one.findings.length)).map(entry));
  by("paper").addEventListener("change", show);
  by("done").addEventListener("change", show);
  show();
}

begin().catch((error) => tell(error.message));
