// The token stands behind the # of the address that was printed: it never reaches a log.
import { ask, by } from "/static/dom.js";

async function enter(token) {
  try {
    await ask("/api/login", { token });
    location.replace("/");
  } catch {
    by("wrong").hidden = false;
  }
}

by("login").addEventListener("submit", (event) => {
  event.preventDefault();
  enter(by("token").value);
});
if (location.hash.length > 1) {
  const token = decodeURIComponent(location.hash.slice(1));
  history.replaceState(null, "", "/login");
  enter(token);
} else by("token").focus();
