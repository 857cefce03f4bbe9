"""The documentation site is built without a warning, shows everything that is public, and fetches nothing."""

from __future__ import annotations

import posixpath
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from constructs import Construct

import cdk_gpu_clusters
from pages import PAGES, REPOSITORY, name_of, without_code

TOOLS = REPOSITORY / "tools"
REFERENCE = sorted((REPOSITORY / "docs" / "reference").rglob("*.md"))
#: What a browser fetches by itself.
FETCHED = {"img": "src", "link": "href", "script": "src", "iframe": "src"}

WRONG_PAGE = """\
# Wrong

[page](nowhere.md) [anchor](#nowhere) [name][cdk_gpu_clusters.Nowhere]

::: cdk_gpu_clusters_stacks.build
"""
WRONG_DOCSTRING = '''\
def build(name: str) -> None:
    """Build it.

    Args:
        nobody: Its name.
    """
'''


class Fetches(HTMLParser):
    """Addresses that a page makes a browser fetch."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if dict(attrs).get("rel") not in ("next", "prev"):  # ways to go on, which no browser fetches
            self.found += [value for name, value in attrs if value and name == FETCHED.get(tag)]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("docs")
    build = [sys.executable, str(TOOLS / "docs_site.py"), "--folder", str(folder / "project")]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "project" / "site"


def built(site: Path) -> Iterator[Path]:
    yield from site.rglob("*.html")


def test_every_page_of_the_repository_is_built(site: Path) -> None:
    found = {page.relative_to(site).as_posix() for page in built(site)}
    wanted = {
        page.relative_to(REPOSITORY / "docs").with_suffix(".html").as_posix().replace("README", "index")
        for page in (REPOSITORY / "docs").rglob("*.md")
    }
    assert wanted <= found
    assert {
        "index.html",
        "examples/p5-lustre.html",
        "examples/own_cdk_app.html",
        "project/changelog.html",
    } <= found


def test_every_rule_has_a_page_at_its_address_with_a_link_to_it(site: Path) -> None:
    table = (site / "rules.html").read_text(encoding="utf-8")
    ids = set(re.findall(r"GPU-[A-Z0-9]+-\d{3}(?=</code>)", table))
    assert len(ids) > 400
    assert {page.parent.name for page in (site / "rules").rglob("index.html")} == ids
    assert {rule_id for rule_id in ids if f'href="rules/{rule_id}/index.html"' not in table} == set()
    areas = {rule_id.rpartition("-")[0].lower() for rule_id in ids}
    assert {area for area in areas if f'href="#{area}"' not in table or f'id="{area}"' not in table} == set()


def test_the_gallery_has_a_report_and_a_picture_of_each_example(site: Path) -> None:
    gallery = (site / "gallery" / "index.html").read_text(encoding="utf-8")
    names = {file.stem for file in (REPOSITORY / "examples").glob("*.yaml")}
    for name in names:
        assert f'href="{name}.html"' in gallery
        assert f'src="{name}.svg"' in gallery
        report = (site / "gallery" / f"{name}.html").read_text(encoding="utf-8")
        assert report.startswith("<!doctype html>")
        picture = (site / "gallery" / f"{name}.svg").read_text(encoding="utf-8")
        assert picture.startswith('<svg class="picture" xmlns="http://www.w3.org/2000/svg"')
    assert {page.stem for page in (site / "gallery").glob("*.html")} == names | {"index"}
    start = (site / "index.html").read_text(encoding="utf-8")
    assert 'href="gallery/index.html"' in start
    assert 'src="gallery/p5-lustre.svg"' in start


def test_every_public_name_is_documented(site: Path) -> None:
    reference = "\n".join(page.read_text(encoding="utf-8") for page in built(site / "reference"))
    names = [name for name in cdk_gpu_clusters.__all__ if name != "__version__"]
    assert len(names) > 40
    assert [name for name in names if f'id="cdk_gpu_clusters.{name}"' not in reference] == []


def test_every_construct_has_a_page_of_its_own_with_its_example(site: Path) -> None:
    named = {name: getattr(cdk_gpu_clusters, name) for name in cdk_gpu_clusters.__all__}
    constructs = {name for name, one in named.items() if isinstance(one, type) and issubclass(one, Construct)}
    pages = {page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# "): page for page in REFERENCE}
    assert constructs <= pages.keys()
    for name in constructs:
        page = site / pages[name].relative_to(REPOSITORY / "docs").with_suffix(".html")
        text = page.read_text(encoding="utf-8")
        assert "Examples:" in text, name
        assert "&gt;&gt;&gt;" in text, name
        assert 'class="admonition' not in text, name  # what griffe makes of a section that it does not know


def test_every_page_links_to_the_repository_and_does_not_ask_it_for_stars(site: Path) -> None:
    link = 'href="https://github.com/cdk-gpu-clusters/cdk-gpu-clusters"'
    pages = [page for page in built(site) if page.parent != site / "gallery" or page.stem == "index"]
    assert [page.name for page in pages if link not in page.read_text(encoding="utf-8")] == []
    # The theme's script asks GitHub if a page has this component.
    assert not any('data-md-component="source"' in page.read_text(encoding="utf-8") for page in pages)


def test_nothing_is_documented_twice() -> None:
    shown = Counter(
        name
        for page in REFERENCE
        for name in re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    )
    assert [name for name, count in shown.items() if count > 1] == []


def test_every_link_within_the_site_leads_somewhere(site: Path) -> None:
    """Zensical checks the links of the pages; here are also those that it writes, and those of the gallery."""
    files = {file.relative_to(site).as_posix() for file in site.rglob("*") if file.is_file()}
    links: dict[str, str] = {}
    for page in built(site):
        folder = page.parent.relative_to(site).as_posix()
        for link in re.findall(r'href="([^"#?]+)', page.read_text(encoding="utf-8")):
            if not re.match(r"[a-z]+:|/", link):
                links.setdefault(posixpath.normpath(posixpath.join(folder, link)), page.name)
    assert len(links) > 500
    missing = {link: page for link, page in links.items() if link not in files and f"{link}/index.html" not in files}
    assert missing.keys() <= {"."}


def test_a_reader_fetches_nothing_from_elsewhere(site: Path) -> None:
    fetched = {(page.name, address) for page in built(site) for address in Fetches(page).found}
    assert len(fetched) > 100
    assert {one for one in fetched if "//" in one[1]} == set()


def test_lists_and_tables_are_not_taken_for_prose(site: Path) -> None:
    """The site's Markdown wants an empty line before a list; where the repository is browsed none is needed."""
    prose = re.compile(r"<p>(?:(?!</p>).)*\n\s*(?:[*-] |\d+\. |\|)", re.DOTALL)
    assert [page.name for page in built(site) if prose.search(page.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_word_in_angle_brackets_is_taken_for_a_tag(page: Path) -> None:
    assert re.findall(r"<[a-zA-Z/][^>\n]*>", without_code(page)) == []


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(TOOLS))


@pytest.mark.usefixtures("tools")
def test_wrong_links_names_and_docstrings_fail_the_build(tmp_path: Path) -> None:
    from docs_site import build, lay_out

    lay_out(tmp_path)
    pages, package = tmp_path / "pages", tmp_path / "stacks" / "cdk_gpu_clusters_stacks"
    for page in set(pages.rglob("*.md")) - {pages / "NAVIGATION.md"}:
        page.unlink()
    (pages / "index.md").write_text(WRONG_PAGE, encoding="utf-8")
    (tmp_path / "stacks").unlink()
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(WRONG_DOCSTRING, encoding="utf-8")
    complaint = build(tmp_path)
    assert "page does not exist" in complaint
    assert "anchor does not exist" in complaint
    assert "unresolved autoref" in complaint
    assert "Parameter 'nobody' does not appear in the function signature" in complaint


@pytest.mark.usefixtures("tools")
def test_links_of_the_repository_become_links_of_the_site() -> None:
    from _docs_links import LinkError, relink

    places = {"docs/storage.md": "storage.md", "examples/p5-lustre.yaml": "examples/p5-lustre.md"}
    text = (
        "[a](storage.md#links) [b](../examples/p5-lustre.yaml) [c](#here) [d](https://example.com)\n"
        "```\n[e](nowhere.md)\n```\n"
    )
    assert relink(text, "docs/mig.md", "mig.md", places) == (
        "[a](storage.md#links) [b](examples/p5-lustre.md) [c](#here) [d](https://example.com)\n"
        "```\n[e](nowhere.md)\n```\n"
    )
    with pytest.raises(LinkError, match=r"docs/mig.md: the site has no page for nowhere.md"):
        relink("[e](nowhere.md)", "docs/mig.md", "mig.md", places)
