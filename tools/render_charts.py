"""Render the charts of the cluster software with real Helm, and record what comes out for the tests.

    PYTHONPATH=tests/support python tools/render_charts.py FOLDER

FOLDER holds each chart of the catalogue and `gpu-operator`, unpacked, in a folder of its name, with the charts that it
depends on in its own folder `charts`. The commits are those of `catalogue/data/kubernetes_software.json`. Nothing is
written where a chart does not know a value, or an object does not fit its Kubernetes schema.
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
from chart_renderings import RECORDINGS, cases, digest, render, summary, unknown_values
from kubernetes_schemas import check_objects
from services.programs import install_helm

# Kinds of other projects, of which no schema stands here.
_WITHOUT_SCHEMA = {"ServiceMonitor"}


def main() -> int:
    """Write the recordings; gives the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the charts are")
    folder: Path = parser.parse_args().folder
    releases = {digest(one): one for case in cases().values() for one in case}
    unknown = [
        f"{one.chart}: no value {fault}"
        for one in releases.values()
        for fault in unknown_values(folder / one.chart, one.values)
    ]
    operator = unknown_values(folder / "gpu-operator", gpu_operator_values())
    unknown += [f"gpu-operator: no value {fault}" for fault in operator]
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
        "charts": {one.chart: chart(one.chart).commit for one in releases.values()},
        "renderings": dict(sorted(renderings.items())),
    }
    RECORDINGS.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    print(f"{len(renderings)} renderings of {len(content['charts'])} charts")
    return 0


def _record(helm: Path, folder: Path, release: ChartRelease) -> dict[str, Any]:
    objects = render(helm, folder / release.chart, release, DEFAULT_KUBERNETES_VERSION)
    checked = check_objects(
        [item for item in objects if item["kind"] not in _WITHOUT_SCHEMA], DEFAULT_KUBERNETES_VERSION
    )
    return {"release": release.name, "checked": checked, **summary(objects)}


if __name__ == "__main__":
    sys.exit(main())
