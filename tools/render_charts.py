"""Render the charts of the cluster software with real Helm, and record what comes out for the tests.

    PYTHONPATH=tests/support python tools/render_charts.py FOLDER

FOLDER holds charts of the catalogue and `gpu-operator`, unpacked, each in a folder of its name, with the charts that it
depends on in its own folder `charts`. The commits are those of `catalogue/data/kubernetes_software.json`. What is
recorded of other charts stays, as long as their values and versions are the same. Nothing is written where a chart does
not know a value, or an object does not fit its Kubernetes schema.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from cdk_gpu_clusters.catalogue.kubernetes import DEFAULT_KUBERNETES_VERSION, chart
from cdk_gpu_clusters.kubernetes.software import ChartRelease, gpu_operator_values
from chart_renderings import RECORDINGS, cases, digest, recordings, render, summary, unknown_values
from kubernetes_schemas import check_objects
from services.programs import install_helm

# Kinds of other projects, of which no schema stands here.
_WITHOUT_SCHEMA = {"ServiceMonitor"}


def main() -> int:
    """Write the recordings; gives the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the charts are")
    folder: Path = parser.parse_args().folder
    every = {digest(one): one for case in cases().values() for one in case}
    releases = {key: one for key, one in every.items() if (folder / one.chart).is_dir()}
    kept = {key: one for key, one in recordings()["renderings"].items() if key in every.keys() - releases.keys()}
    if missing := {one.chart for key, one in every.items() if key not in {**releases, **kept}}:
        print(f"no folder of {', '.join(sorted(missing))}", file=sys.stderr)
        return 1
    unknown = [
        f"{one.chart}: no value {fault}"
        for one in releases.values()
        for fault in unknown_values(folder / one.chart, one.values)
    ]
    if (operator := folder / "gpu-operator").is_dir():
        unknown += [f"gpu-operator: no value {fault}" for fault in unknown_values(operator, gpu_operator_values())]
    if unknown:
        print("\n".join(sorted(set(unknown))), file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as place:
        helm = install_helm(Path(place))
        version = subprocess.run([helm, "version", "--short"], check=True, capture_output=True, text=True, timeout=60)
        renderings = {key: _record(helm, folder, one) for key, one in releases.items()}
    content = {
        "helm": version.stdout.strip(),
        "kubernetes": DEFAULT_KUBERNETES_VERSION,
        "charts": {one.chart: chart(one.chart).commit for one in every.values()},
        "renderings": dict(sorted({**kept, **renderings}.items())),
    }
    RECORDINGS.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    print(f"{len(renderings)} renderings of {len(content['charts'])} charts")
    return 0


def _record(helm: Path, folder: Path, release: ChartRelease) -> dict[str, Any]:
    objects = render(helm, folder / release.chart, release, DEFAULT_KUBERNETES_VERSION)
    checked = check_objects(
        [_without_nulls(item) for item in objects if item["kind"] not in _WITHOUT_SCHEMA], DEFAULT_KUBERNETES_VERSION
    )
    return {"release": release.name, "checked": checked, **summary(objects)}


def _without_nulls(value: Any) -> Any:
    """The value as an API server reads it (Kubernetes, CustomResourceDefinition, Defaulting and Nullable)."""
    if isinstance(value, dict):
        return {key: _without_nulls(one) for key, one in value.items() if one is not None}
    return [_without_nulls(one) for one in value] if isinstance(value, list) else value


if __name__ == "__main__":
    sys.exit(main())
