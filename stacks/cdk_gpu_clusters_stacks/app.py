"""The CDK app: one cluster file in, one cloud assembly out.

`cdk synth --app "python -m cdk_gpu_clusters_stacks" -c cluster=cluster.yaml`
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import aws_cdk as cdk

from cdk_gpu_clusters.errors import ConfigError
from cdk_gpu_clusters.rules.efa_choice import uses_efa
from cdk_gpu_clusters_stacks.capacity import CapacityStack
from cdk_gpu_clusters_stacks.fabric import FabricStack
from cdk_gpu_clusters_stacks.network import cluster_place
from cdk_gpu_clusters_stacks.spec.capacity import NewReservation
from cdk_gpu_clusters_stacks.spec.fleet import FleetSpec
from cdk_gpu_clusters_stacks.spec.load import read_cluster
from cdk_gpu_clusters_stacks.spec.model import ClusterSpec
from cdk_gpu_clusters_stacks.spec.report import report
from cdk_gpu_clusters_stacks.training import FleetStack

DEFAULT_CLUSTER_FILE = "cluster.yaml"


def build_cluster(app: cdk.App, spec: ClusterSpec) -> None:
    """Define the stacks of a cluster.

    Stacks follow life spans: the network, one for each fabric, one for each fleet's reservation, one for each fleet,
    all named after their key in the cluster file. So a fleet that comes, goes or moves leaves every other template
    byte-identical.

    Args:
        app: The app.
        spec: The cluster.
    """
    env = cdk.Environment(account=spec.account, region=spec.region)
    for key, value in {"gpu-cluster": spec.name, **spec.tags}.items():
        cdk.Tags.of(app).add(key, value)
    place = cluster_place(app, spec, env)
    fabrics: dict[str, FabricStack] = {}
    for name, fleet in spec.training.fleets.items():
        efa = uses_efa(fleet.instance_type, fleet.efa)
        if efa and fleet.fabric not in fabrics:
            fabrics[fleet.fabric] = FabricStack(
                app, f"{spec.name}-fabric-{fleet.fabric}", place=place, env=env
            )
        FleetStack(
            app,
            f"{spec.name}-fleet-{name}",
            fleet=fleet,
            place=place,
            fabric=fabrics[fleet.fabric] if efa else None,
            capacity=_capacity_stack(app, spec, name, fleet, placed=efa, env=env),
            env=env,
        )


def _capacity_stack(
    app: cdk.App, spec: ClusterSpec, name: str, fleet: FleetSpec, *, placed: bool, env: cdk.Environment
) -> CapacityStack | None:
    if not isinstance(fleet.capacity, NewReservation):
        return None
    return CapacityStack(
        app,
        f"{spec.name}-capacity-{name}",
        fleet=fleet,
        options=fleet.capacity,
        placed=fleet.placement == "cluster" or (placed and fleet.placement is None),
        availability_zone=spec.network.availability_zone,
        env=env,
    )


def main() -> None:
    """Synthesize the cluster file named by the context value `cluster`; `cluster.yaml` if there is none.

    Faults of the file go to standard error, all at once, and nothing is written; so do warnings.
    """
    app = cdk.App()
    reading = read_cluster(Path(app.node.try_get_context("cluster") or DEFAULT_CLUSTER_FILE))
    report(reading.findings)
    if reading.spec is None:
        _stop(app)
    try:
        build_cluster(app, reading.spec)
    except ConfigError as error:
        report(error.findings)
        _stop(app)
    app.synth()


def _stop(app: cdk.App) -> NoReturn:
    """End with nothing written: an App makes its output folder before it has anything to put there."""
    with suppress(OSError):  # a folder with an earlier assembly stays
        Path(app.outdir).rmdir()
    sys.exit(1)
