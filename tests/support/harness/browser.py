"""The browser of the system, driven by Playwright, with everything that a page complains about."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, sync_playwright


def chromium() -> str:
    """Its path. Without one the test is skipped; where CI is true it must be there."""
    found = shutil.which("chromium")
    if found is None:
        why = "there is no chromium: 'make setup' installs it where it is root"
        if os.environ.get("CI") == "true":
            pytest.fail(why)
        pytest.skip(why)
    return found


@contextmanager
def browsing() -> Iterator[Browser]:
    path = chromium()
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
