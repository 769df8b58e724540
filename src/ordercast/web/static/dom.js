// Elements from data. Text is always text: nothing here or elsewhere reads data as markup, but for
// drawings of our own server, which has escaped every name in them.
export const by = (id) => document.getElementById(id);

export function make(name, props = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "class") element.className = value;
    else if (key === "data") Object.assign(element.dataset, value);
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined).map((c) => (c instanceof Node ? c : String(c))));
  return element;
}

export function drawing(text) {
  const parsed = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  if (parsed.localName !== "svg") throw new Error("the server has sent no drawing");
  return document.importNode(parsed, true);
}

let hide = 0;
export function tell(message) {
  const place = by("told");
  place.textContent = message;
  place.classList.add("shown");
  clearTimeout(hide);
  hide = setTimeout(() => place.classList.remove("shown"), 6000);
}

export async function ask(path, body) {
  const options = body === undefined ? {} : { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  const answer = await fetch(path, options);
  if (answer.status === 401 && document.body.dataset.page !== "login") {
    location.assign("/login");
    throw new Error("the token is missing");
  }
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error ?? `error ${answer.status}`);
  return found;
}

// Ask until what is being made is there; `show` gets a line that says how far it is.
export async function whenMade(path, show, made = (found) => !found.running) {
  let found = await ask(path);
  while (!made(found)) {
    show(found.running);
    await new Promise((done) => setTimeout(done, 500));
    found = await ask(path);
  }
  return found;
}

export const number = (value, digits = 0) => (value === null || value === undefined ? "–" : value.toLocaleString("en-GB", { maximumFractionDigits: digits }));

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  for (const unit of ["B", "kB", "MB", "GB"]) {
    if (value < 999.5 || unit === "GB") return `${number(value, unit === "B" ? 0 : 1)} ${unit}`;
    value /= 1000;
  }
}

export function time(ns) {
  if (Math.abs(ns) >= 1e9) return `${number(ns / 1e9, 6)} s`;
  if (Math.abs(ns) >= 1e6 || ns === 0) return `${number(ns / 1e6, 3)} ms`;
  return `${number(ns / 1e3, 3)} µs`;
}

// Run `work` again and again as it is asked for, but never twice at a time: the last wish counts.
export function latest(work) {
  let busy = false, again = false;
  return async function run() {
    if (busy) { again = true; return; }
    busy = true;
    try { await work(); } catch (error) { tell(error.message); } finally { busy = false; }
    if (again) { again = false; run(); }
  };
}
