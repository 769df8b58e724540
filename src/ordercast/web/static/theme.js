// Before anything is drawn: the theme that was chosen here last. Without one, the system's.
(() => {
  try {
    const kept = localStorage.getItem("ordercast-theme");
    if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
  } catch { /* no storage: the system's theme */ }
})();
