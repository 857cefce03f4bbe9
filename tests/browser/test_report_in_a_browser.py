"""The report in a real, headless Chromium: nothing is asked of a network, nothing overflows, texts stay in their boxes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome

from cdk_gpu_clusters_stacks.plan import plan_cluster
from cdk_gpu_clusters_stacks.report_page import report_html
from cdk_gpu_clusters_stacks.spec import load_cluster
from chromium import accessibility_faults, asked, messages, show

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


@pytest.fixture(scope="module", params=NAMES)
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("pages") / f"{request.param}.html"
    file.write_text(report_html(plan_cluster(load_cluster(EXAMPLES / f"{request.param}.yaml"))), "utf-8")
    return file


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1600])
def test_nothing_overflows_and_everyone_can_read_it(browser: Chrome, page: Path, width: int, scheme: str) -> None:
    show(browser, page, width=width, scheme=scheme)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert browser.execute_script(LEAVING) == []
    assert accessibility_faults(browser) == []
    assert drawings(browser) == len(page.read_text("utf-8").split("<svg ")[1:]) / 2


def drawings(browser: Chrome) -> Any:
    script = "return [...document.querySelectorAll('svg')].filter(e => getComputedStyle(e).display !== 'none').length"
    return browser.execute_script(script)


def test_nothing_is_asked_of_a_network_and_nothing_goes_wrong(browser: Chrome, page: Path) -> None:
    asked(browser)
    messages(browser)
    show(browser, page)
    assert asked(browser) == {page.as_uri()}
    assert messages(browser) == []


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
    assert accessibility_faults(browser) == []
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
    found = " ".join(accessibility_faults(browser))
    assert "color-contrast" in found
    assert "image-alt" in found
    assert "landmark-one-main" in found
    assert asked(browser) == {bad.as_uri(), bad.with_name("none.png").as_uri()}
    assert messages(browser) != []
