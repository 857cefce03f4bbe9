"""The documentation site in a real, headless Chromium, served on loopback with a second version beside it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

import pytest
from selenium.webdriver import Chrome

from chromium import accessibility_faults, asked, messages, show

TOOLS = Path(__file__).parents[2] / "tools"
PAGES = [
    "index.html",
    "gallery/index.html",
    "rules.html",
    "rules/GPU-EFA-030/",
    "destroy.html",
    "examples/index.html",
    "reference/nodes/gpu-fleet.html",
]


class Quiet(SimpleHTTPRequestHandler):
    """Serves files and writes no log."""

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of version 0.1.0 of the site; 0.2.0 is the latest."""
    folder = tmp_path_factory.mktemp("docs")
    published = folder / "published"
    subprocess.run([sys.executable, TOOLS / "docs_site.py", "--folder", folder / "project"], check=True)
    published.mkdir()
    tool, built = TOOLS / "publish_docs.py", folder / "project" / "site"
    for revision in ("v0.1.0", "v0.2.0"):
        subprocess.run([sys.executable, tool, built, published, revision], check=True)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(published))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/0.1.0/"
        server.shutdown()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1600])
@pytest.mark.parametrize("page", PAGES)
def test_everyone_can_read_a_page(browser: Chrome, site: str, page: str, width: int, scheme: str) -> None:
    # The site remembers the scheme of the page before.
    browser.execute_cdp_cmd("Storage.clearDataForOrigin", {"origin": site, "storageTypes": "local_storage"})
    asked(browser)
    messages(browser)
    show(browser, site + page, width=width, scheme=scheme)
    assert accessibility_faults(browser) == []
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    hosts = {urlsplit(address).hostname for address in asked(browser) if address.startswith("http")}
    assert hosts == {"127.0.0.1"}
    assert messages(browser) == []


def test_a_reader_can_choose_the_version(browser: Chrome, site: str) -> None:
    show(browser, site)
    script = "return [...document.querySelectorAll('.md-version__link')].map(one => [one.textContent.trim(), one.href])"
    browser.implicitly_wait(5)
    browser.find_element("css selector", ".md-version__link")
    versions = dict(browser.execute_script(script))
    assert list(versions) == ["0.2.0", "0.1.0"]
    assert versions["0.2.0"] == site.replace("0.1.0", "0.2.0")


def test_the_address_without_a_version_leads_to_the_latest(browser: Chrome, site: str) -> None:
    show(browser, site.replace("0.1.0/", ""))
    browser.implicitly_wait(5)
    browser.find_element("css selector", "h1")
    assert browser.current_url.endswith("/0.2.0/")


def test_pictures_of_the_gallery_are_drawn_and_open_the_reports(browser: Chrome, site: str) -> None:
    show(browser, site + "gallery/")
    script = "return [...document.querySelectorAll('.gallery img')].map(one => [one.loading = 'eager', one.decode()])"
    browser.execute_script(script)
    drawn = browser.execute_async_script(
        "const done = arguments[0], all = [...document.querySelectorAll('.gallery img')];"
        "Promise.all(all.map(one => one.decode())).then(() => done(all.map(one => one.naturalWidth)), () => done([]))"
    )
    assert len(drawn) > 15
    assert set(drawn) == {640}
    browser.find_element("css selector", ".gallery a").click()
    assert "GPU cluster report" in browser.title


def test_the_search_finds_how_to_uninstall(browser: Chrome, site: str) -> None:
    index = site + "search.json"
    show(browser, index)
    assert "uninstall" in browser.page_source
