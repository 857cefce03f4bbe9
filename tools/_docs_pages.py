"""Which files of the repository are pages of the documentation site, where they stand there, and in which order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TypeAlias

from _docs_gallery import PAGE as GALLERY
from _docs_gallery import gallery_page, with_gallery
from _pages import ROOT
from _rule_pages import FOLDER as RULES
from _rule_pages import rows, rule_page, with_links

#: Section -> its pages in order, or its own sections. A pattern takes the files that no section names; what is not
#: there is left out, and so is a section without pages.
Sections: TypeAlias = "Mapping[str, tuple[str, ...] | Sections]"
NAVIGATION: Sections = {
    "Start": ("README.md", "docs/tutorial.md", GALLERY, "docs/concepts.md", "docs/cookbook.md", "docs/destroy.md"),
    "Guides": (
        "docs/cluster-file.md",
        "docs/command-line.md",
        "docs/import.md",
        "docs/preflight.md",
        "docs/explain.md",
        "docs/cost.md",
        "docs/doctor.md",
        "docs/status.md",
        "docs/jobs.md",
        "docs/capacity.md",
        "docs/storage.md",
        "docs/inference.md",
        "docs/orchestrators.md",
        "docs/eks.md",
        "docs/eks-software.md",
        "docs/eks-scaling.md",
        "docs/eks-serving.md",
        "docs/eks-workloads.md",
        "docs/eks-teams.md",
        "docs/eks-ultraservers.md",
        "docs/eks-day-2.md",
        "docs/pcs.md",
        "docs/parallelcluster.md",
        "docs/batch.md",
        "docs/hyperpod.md",
        "docs/mig.md",
        "docs/node.md",
        "docs/node-software.md",
        "docs/node-health.md",
        "docs/slurm-nodes.md",
        "docs/metrics.md",
        "docs/alerts.md",
        "docs/prometheus.md",
        "docs/dashboards.md",
        "docs/topology.md",
        "docs/template-rules.md",
        "docs/known-traps.md",
        "docs/testing.md",
        "docs/emulator.md",
        "docs/*.md",
    ),
    "Reference": {
        "Network": ("docs/reference/network/*.md",),
        "Capacity": ("docs/reference/capacity/*.md",),
        "Nodes": ("docs/reference/nodes/*.md",),
        "Storage": ("docs/reference/storage/*.md",),
        "Inference": ("docs/reference/inference/*.md",),
        "Amazon EKS": ("docs/reference/eks/*.md",),
        "AWS PCS": ("docs/reference/pcs/*.md",),
        "AWS ParallelCluster": ("docs/reference/parallelcluster/*.md",),
        "AWS Batch": ("docs/reference/batch/*.md",),
        "SageMaker HyperPod": ("docs/reference/hyperpod/*.md",),
        "Observability": ("docs/reference/observability/*.md",),
        "Template rules": ("docs/reference/template-rules/*.md",),
        "Without CDK": ("docs/reference/without-cdk/*.md",),
    },
    "Examples": ("examples/README.md", "examples/*.yaml", "examples/*/app.py"),
    "Evidence": (
        "docs/rules.md",
        "docs/survey.md",
        "docs/security.md",
        "docs/security-controls.md",
        "docs/reliability.md",
        "docs/performance.md",
    ),
    "Decisions": ("docs/decisions/README.md", "docs/decisions/*.md"),
    "Develop": (
        "CONTRIBUTING.md",
        "docs/develop/architecture.md",
        "docs/develop/parameter-paths.md",
        "docs/develop/add-a-type.md",
        "docs/develop/add-a-rule.md",
        "docs/develop/add-a-fleet-parameter.md",
        "docs/develop/add-an-orchestrator.md",
        "docs/develop/testing.md",
        "docs/develop/*.md",
    ),
    "Project": ("CHANGELOG.md", "SECURITY.md", "LICENSE"),
}
TITLES = {GALLERY: "Gallery", "README.md": "Quick start", "SECURITY.md": "Report a vulnerability", "LICENSE": "Licence"}
LANGUAGES = {".yaml": "yaml", ".py": "python", "": "text"}


#: Pages to which the site adds something.
_CHANGED = {"README.md": with_gallery, f"{RULES}.md": with_links}


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """One page of the site.

    Attributes:
        source: The file, from the root of the repository.
        target: The page, from the root of the site.
        title: What the navigation calls it.
    """

    source: str
    target: str
    title: str

    def text(self) -> str:
        """Its Markdown: a Markdown file as it is, the page about a rule, or another file as a block of code."""
        if self.source == GALLERY:
            return gallery_page()
        if self.source.startswith(f"{RULES}/"):
            return rule_page(PurePosixPath(self.source).stem)
        content = (ROOT / self.source).read_text(encoding="utf-8")
        if change := _CHANGED.get(self.source):
            return change(content)
        suffix = PurePosixPath(self.source).suffix
        return content if suffix == ".md" else f"# {self.title}\n\n```{LANGUAGES[suffix]}\n{content}```\n"


def every_page(sections: Sections = NAVIGATION) -> Iterator[Page]:
    """All pages, in the order of the navigation."""
    for pages in sections.values():
        if isinstance(pages, Mapping):
            yield from every_page(pages)
        else:
            yield from (_page(source) for pattern in pages for source in _files(pattern))


def rule_pages() -> Iterator[Page]:
    """The pages about rules. The navigation leaves them out: the table of all rules links to them."""
    for rule_id in rows():
        yield Page(source=f"{RULES}/{rule_id}.md", target=f"rules/{rule_id}/index.md", title=rule_id)


def navigation(sections: Sections = NAVIGATION, indent: str = "") -> Iterator[str]:
    """The lines of the Markdown list that Zensical takes its navigation from."""
    for section, pages in sections.items():
        deeper = f"{indent}    "
        if isinstance(pages, Mapping):
            inner = list(navigation(pages, deeper))
        else:
            inner = [f"{deeper}* [{page.title}]({page.target})" for page in every_page({section: pages})]
        if inner:
            yield from (f"{indent}* {section}", *inner)


def _files(pattern: str) -> list[str]:
    """The files that a pattern takes, by name."""
    if pattern == GALLERY:
        return [pattern]
    found = sorted(ROOT.glob(pattern), key=lambda path: path.with_suffix(""))
    named = set(_patterns(NAVIGATION)) - {pattern}
    return [source for path in found if (source := path.relative_to(ROOT).as_posix()) not in named]


def _patterns(sections: Sections) -> Iterator[str]:
    for pages in sections.values():
        yield from _patterns(pages) if isinstance(pages, Mapping) else pages


def _page(source: str) -> Page:
    path = PurePosixPath(source)
    return Page(source=source, target=str(_target(path)), title=TITLES.get(source) or _title(path))


def _target(source: PurePosixPath) -> PurePosixPath:
    match source.parts:
        case ("docs", *_, "README.md"):
            return source.relative_to("docs").with_name("index.md")
        case (*_, "README.md"):
            return source.with_name("index.md")
        case ("docs", *_):
            return source.relative_to("docs")
        case ("gallery", *_):
            return source
        case ("examples", name, "app.py"):
            return PurePosixPath("examples", f"{name}.md")
        case ("examples", _):
            return source.with_suffix(".md")
    return PurePosixPath("project", f"{source.stem.lower()}.md")


def _title(source: PurePosixPath) -> str:
    if source.suffix == ".md":
        heading = re.search(r"^# (.+)$", (ROOT / source).read_text(encoding="utf-8"), re.MULTILINE)
        return heading[1] if heading else source.stem
    return source.parent.name if source.name == "app.py" else source.stem
