"""The report in a real, headless Chromium: nothing is asked of a network, nothing overflows, texts stay in their boxes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

from cdk_gpu_clusters_stacks.plan import plan_cluster
from cdk_gpu_clusters_stacks.report_page import report_html
from cdk_gpu_clusters_stacks.spec import load_cluster
from nodebox.debian import program

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = [
    "p5-capacity-block",
    "p4d-mig-56-slices",
    "train-and-serve",
    "p5-lustre",
    "g5-single-gpu",
    "inf2-neuron",
    "eks-p5-capacity-block",
]
FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --hide-scrollbars"
)
#: Texts whose drawn box leaves the rectangle before them, and rectangles that leave the drawing.
LEAVING = """
const found = [];
for (const svg of document.querySelectorAll('svg')) {
  if (getComputedStyle(svg).display === 'none') continue;
  const all = svg.getBBox(), size = svg.viewBox.baseVal;
  if (all.width > size.width + 1 || all.height > size.height + 1) found.push('drawing ' + all.width);
  for (const text of svg.querySelectorAll('text')) {
    const box = text.getBBox();
    if (box.x < 0 || box.x + box.width > size.width + 0.5) found.push(text.textContent);
    let outer = text.previousElementSibling;
    while (outer && outer.tagName !== 'rect') outer = outer.previousElementSibling;
    const rect = outer && outer.getBBox();
    if (rect && box.x >= rect.x && box.y >= rect.y && box.y <= rect.y + rect.height
        && box.x <= rect.x + rect.width && box.x + box.width > rect.x + rect.width + 0.5) found.push(text.textContent);
  }
}
return found;
"""
#: Least contrast of any text of the page with what lies behind it, by the formula of WCAG 2.
CONTRAST = """
const light = c => { const v = c.match(/[\\d.]+/g).slice(0, 3).map(x => x / 255)
  .map(x => x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4); return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]; };
const ratio = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
const behind = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
  if (!c.endsWith(', 0)')) return c; } return getComputedStyle(document.documentElement).backgroundColor; };
let least = 99, where = '';
for (const e of document.querySelectorAll('h1,h2,h3,p,dt,dd,td,th,li,small,span')) {
  if (!e.textContent.trim()) continue;
  const r = ratio(getComputedStyle(e).color, behind(e));
  if (r < least) { least = r; where = e.tagName + ' ' + e.textContent.slice(0, 30); }
}
return [least, where];
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    """Chromium and its driver, from Debian, installed where they are missing."""
    options = ChromeOptions()
    options.binary_location = program("chromium")
    for flag in [*FLAGS.split(), f"--user-data-dir={tmp_path_factory.mktemp('profile')}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = Chrome(options, Service(program("chromedriver", "chromium-driver")))
    yield driver
    driver.quit()


def show(browser: Chrome, page: Path, *, width: int = 1600, scheme: str = "light", media: str = "screen") -> None:
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"media": media, "features": [{"name": "prefers-color-scheme", "value": scheme}]},
    )
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False},
    )
    browser.get(page.as_uri())


@pytest.fixture(scope="module", params=NAMES)
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("pages") / f"{request.param}.html"
    file.write_text(report_html(plan_cluster(load_cluster(EXAMPLES / f"{request.param}.yaml"))), "utf-8")
    return file


def asked(browser: Chrome) -> set[str]:
    """The addresses that the browser asked for since the last look."""
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]  # type: ignore[no-untyped-call]
    return {event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"}


def messages(browser: Chrome) -> list[Any]:
    """What the page wrote to the console since the last look."""
    return list(browser.get_log("browser"))  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1600])
def test_nothing_overflows_at_any_width(browser: Chrome, page: Path, width: int, scheme: str) -> None:
    show(browser, page, width=width, scheme=scheme)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert browser.execute_script(LEAVING) == []
    assert drawings(browser) == len(page.read_text("utf-8").split("<svg ")[1:]) / 2


def drawings(browser: Chrome) -> Any:
    script = "return [...document.querySelectorAll('svg')].filter(e => getComputedStyle(e).display !== 'none').length"
    return browser.execute_script(script)


def test_nothing_is_asked_of_a_network_and_nothing_goes_wrong(browser: Chrome, page: Path) -> None:
    asked(browser)
    show(browser, page)
    assert asked(browser) == {page.as_uri()}
    assert messages(browser) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_are_readable(browser: Chrome, page: Path, scheme: str) -> None:
    show(browser, page, scheme=scheme)
    least, where = browser.execute_script(CONTRAST)
    assert least >= 4.5, where


def test_the_colour_schemes_differ(browser: Chrome, page: Path) -> None:
    colours = []
    for scheme in ("light", "dark"):
        show(browser, page, scheme=scheme)
        colours.append(browser.execute_script("return getComputedStyle(document.documentElement).backgroundColor"))
    assert colours[0] != colours[1]


def test_it_prints_on_white(browser: Chrome, page: Path) -> None:
    show(browser, page, scheme="dark", media="print")
    assert browser.execute_script("return getComputedStyle(document.documentElement).backgroundColor") == (
        "rgb(255, 255, 255)"
    )
    least, where = browser.execute_script(CONTRAST)
    assert least >= 4.5, where
    assert browser.print_page()


def test_the_checks_above_see_faults(browser: Chrome, tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<html style='background:rgb(255,255,255)'><body style='width:3000px'><p style='color:rgb(200,200,200)'>pale</p>"
        "<svg viewBox='0 0 100 20'><rect width='20' height='20'/><text x='2' y='10'>much too long</text></svg>"
        "<img src='none.png'></body></html>",
        "utf-8",
    )
    asked(browser)
    show(browser, bad)
    assert browser.execute_script("return document.documentElement.scrollWidth") > 1600
    assert "much too long" in browser.execute_script(LEAVING)
    assert browser.execute_script(CONTRAST)[0] < 4.5
    assert asked(browser) == {bad.as_uri(), bad.with_name("none.png").as_uri()}
    assert messages(browser) != []
