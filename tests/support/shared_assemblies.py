"""Cluster files as synthesized: each text once in a run of the tests, whichever process asks for it first."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import aws_cdk as cdk

from cdk_gpu_clusters_stacks.app import build_cluster
from cdk_gpu_clusters_stacks.spec.load import load_cluster
from cluster_files.edits import write
from shared_folders import made_once

Json = dict[str, Any]


class SharedAssemblies:
    """Cloud assemblies by the text of their cluster file, in a folder that the processes of a run share.

    Args:
        folder: The folder.
        new_app: Makes an app that writes to a folder.
    """

    def __init__(self, folder: Path, new_app: Callable[..., cdk.App]) -> None:
        self._folder = folder
        self._new_app = new_app

    def of(self, text: str) -> Path:
        """The folder of a text's assembly, which nobody changes."""

        def synthesize(folder: Path) -> None:
            app = self._new_app(outdir=str(folder / "cdk.out"))
            build_cluster(app, load_cluster(write(folder, text)))
            app.synth()
            manifest = json.loads((folder / "cdk.out" / "manifest.json").read_text("utf-8"))
            assert "missing" not in manifest, "synthesis asked for something in an account"

        return made_once(self._folder / sha256(text.encode()).hexdigest(), synthesize) / "cdk.out"


def templates_in(assembly: Path) -> dict[str, Json]:
    """The templates of an assembly by stack."""
    return {
        file.name.removesuffix(".template.json"): json.loads(file.read_text("utf-8"))
        for file in sorted(assembly.glob("*.template.json"))
    }
