"""What hatchling cannot read from pyproject.toml: metadata of the two distributions that this repository publishes.

`gpu-clusters` has all modules and the command. `cdk-gpu-clusters` has none: it depends on the same version of the other
with its extra `cdk` (docs/decisions/0029). Both show the README, with absolute links.
"""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

ROOT = Path(__file__).resolve().parent
VERSION_FILE = ROOT / "constructs" / "cdk_gpu_clusters" / "_version.py"
_WITH_MODULES = "gpu-clusters"
#: Links and pictures of Markdown, and what HTML in it names, if the target is a path.
_LINK = re.compile(
    r"(?P<before>(?P<picture>!?)\[[^\]]*\]\(|(?P<html>(?:src|srcset)=\"))(?!https?://|#|mailto:)(?P<path>[^)\"\s]+)"
)


class CustomMetadataHook(MetadataHookInterface):
    """Fill in the dynamic fields."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add version, links, README and, where there are no modules, the dependencies."""
        constants = runpy.run_path(str(VERSION_FILE))
        version, repository = constants["__version__"], constants["REPOSITORY_URL"]
        metadata["version"] = version
        metadata["urls"] = project_urls(repository)
        text = with_absolute_links((ROOT / "README.md").read_text(encoding="utf-8"), repository, f"v{version}")
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        if metadata["name"] != _WITH_MODULES:
            extras = self.config["extras"]
            metadata["dependencies"] = [f"{_WITH_MODULES}[cdk]=={version}"]
            metadata["optional-dependencies"] = {extra: [f"{_WITH_MODULES}[{extra}]=={version}"] for extra in extras}


def project_urls(repository: str) -> dict[str, str]:
    """The links beside a package."""
    owner, name = repository.split("/")[-2:]
    return {
        "Repository": repository,
        "Documentation": f"https://{owner}.github.io/{name}/",
        "Changelog": f"{repository}/blob/main/CHANGELOG.md",
        "Issues": f"{repository}/issues",
    }


def with_absolute_links(markdown: str, repository: str, revision: str) -> str:
    """Make links to files of the repository absolute, so that they work where only the text is shown."""
    raw = repository.replace("https://github.com/", "https://raw.githubusercontent.com/")

    def absolute(link: re.Match[str]) -> str:
        is_picture = link["picture"] or link["html"]
        base = f"{raw}/{revision}" if is_picture else f"{repository}/blob/{revision}"
        return f"{link['before']}{base}/{link['path']}"

    return _LINK.sub(absolute, markdown)
