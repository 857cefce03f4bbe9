"""The page about the removal of a cluster names every type of resource that CloudFormation keeps, and no other."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from cluster_files.edits import SCRAPED
from shared_assemblies import SharedAssemblies, templates_in

REPOSITORY = Path(__file__).parents[2]
PAGE = REPOSITORY / "docs" / "destroy.md"


@pytest.fixture(scope="module")
def templates(assemblies_of_files: SharedAssemblies) -> list[dict[str, Any]]:
    """The templates of all examples, and of a cluster whose metrics go to a workspace."""
    texts = [file.read_text("utf-8") for file in sorted((REPOSITORY / "examples").glob("*.yaml"))]
    return [one for text in (*texts, SCRAPED) for one in templates_in(assemblies_of_files.of(text)).values()]


def test_the_page_lists_the_types_that_stay(templates: list[dict[str, Any]]) -> None:
    kept = {
        resource["Type"]
        for template in templates
        for resource in template["Resources"].values()
        if str(resource.get("DeletionPolicy", "")).startswith("Retain")
    }
    listed = re.findall(r"^\| `(AWS::\w+::\w+)` \|", PAGE.read_text("utf-8"), re.MULTILINE)
    assert len(templates) > 50
    assert sorted(listed) == sorted(kept)
    # Reservations are not kept: they would bill without end.
    assert all("Reservation" not in one for one in kept)


def test_the_bootstrap_bucket_stays() -> None:
    """What the page says of the bucket that the pinned CDK CLI makes."""
    cli = REPOSITORY / ".tools" / "node_modules" / "aws-cdk"
    template = (cli / "lib" / "api" / "bootstrap" / "bootstrap-template.yaml").read_text("utf-8")
    bucket = re.search(r"^  StagingBucket:\n((?:    .*\n)+)", template, re.MULTILINE)
    assert bucket
    assert "    DeletionPolicy: Retain\n" in bucket[1]
    assert f"CDK\nCLI {json.loads((cli / 'package.json').read_text('utf-8'))['version']}" in PAGE.read_text("utf-8")
