"""The browser of the system, driven by Playwright, with everything that a page complains about."""

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Page, sync_playwright

from support.harness.commands import needed


@contextmanager
def browsing() -> Iterator[Browser]:
    path = needed("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


def listen(page: Page, complaints: list[str]) -> None:
    """Note every error and warning of the page's console."""
    page.on(
        "console",
        lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None,
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))
