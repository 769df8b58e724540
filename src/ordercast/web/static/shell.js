// What every page has: the switch of the theme, and keys that go from page to page.
import { by } from "/static/dom.js";

function dark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function turn() {
  const next = dark() ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  try { localStorage.setItem("ordercast-theme", next); } catch { /* for this page only */ }
  document.dispatchEvent(new CustomEvent("theme"));
}

by("theme").addEventListener("click", turn);
document.addEventListener("keydown", (event) => {
  if (event.target.closest("input:not([type=range]), textarea, select") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "t") turn();
  const pages = document.querySelectorAll(".top nav a");
  const at = Number(event.key) - 1;
  if (Number.isInteger(at) && pages[at]) pages[at].click();
});
