"""Pages in a real, headless Chromium, and the accessibility checker axe-core in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

from nodebox.debian import program

_FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --hide-scrollbars"
)
#: Installed by tools/setup.py, in the version of tools/cli/package-lock.json.
_AXE = Path(__file__).parents[2] / ".tools" / "node_modules" / "axe-core" / "axe.min.js"
#: The rules of WCAG 2.2 on levels A and AA, and those of landmarks and headings, which are nobody's law.
_TAGS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")
_MORE_RULES = ("landmark-one-main", "landmark-unique", "heading-order", "page-has-heading-one", "region")
_RUN_AXE = """
const [tags, more, done] = arguments;
const rules = axe.getRules(tags).map(one => one.ruleId).concat(more);
axe.run(document, {runOnly: {type: 'rule', values: rules}, resultTypes: ['violations']}).then(
  found => done(found.violations.map(one => one.id + ': ' + one.nodes.length + ' x ' + one.help + ', at '
    + one.nodes.slice(0, 3).map(node => node.target.join(' ') + ' ' + node.any.map(any => any.message)).join(' | '))),
  fault => done(['axe: ' + fault]));
"""


@contextmanager
def chromium(profile: Path) -> Iterator[Chrome]:
    """Chromium and its driver, from Debian, installed where they are missing."""
    options = ChromeOptions()
    options.binary_location = program("chromium")
    for flag in [*_FLAGS.split(), f"--user-data-dir={profile}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = Chrome(options, Service(program("chromedriver", "chromium-driver")))
    try:
        yield driver
    finally:
        driver.quit()


def show(
    browser: Chrome, address: Path | str, *, width: int = 1600, scheme: str = "light", media: str = "screen"
) -> None:
    """Open a page with a width in pixels, a colour scheme, and a medium."""
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"media": media, "features": [{"name": "prefers-color-scheme", "value": scheme}]},
    )
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False},
    )
    browser.get(address.as_uri() if isinstance(address, Path) else address)


def asked(browser: Chrome) -> set[str]:
    """The addresses that the browser asked for since the last look."""
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]  # type: ignore[no-untyped-call]
    return {event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"}


def messages(browser: Chrome) -> list[Any]:
    """What the page wrote to the console since the last look."""
    return list(browser.get_log("browser"))  # type: ignore[no-untyped-call]


def accessibility_faults(browser: Chrome) -> list[str]:
    """What axe-core finds on the page that is shown."""
    browser.execute_script(_AXE.read_text("utf-8"))
    # Scripts of the page that wait for the layout have run after two frames.
    browser.execute_async_script(
        "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 20)))"
    )
    found: list[str] = browser.execute_async_script(_RUN_AXE, _TAGS, _MORE_RULES)
    return found
