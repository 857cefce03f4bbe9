"""Every app of the policy tests, synthesized once with all packs: every example, and everything on."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest

from assemblies import REPORT_ONLY, Assembly, Packs
from cdk_gpu_clusters_stacks.app import build_cluster
from cdk_gpu_clusters_stacks.spec.load import load_cluster
from cluster_files.inference import EVERYTHING
from cluster_files.store_edits import CLUSTER
from everything.batch import define_batch
from everything.eks import define_eks
from everything.fleets import ENVIRONMENTS, define_training
from everything.hyperpod import define_hyperpod
from everything.monitoring import define_monitoring
from everything.node_groups import define_node_groups
from everything.parallelcluster import define_parallelcluster
from everything.pcs import define_pcs
from everything.serving import define_serving
from everything.stores import define_stores
from everything.variants import define_variants

EXAMPLES = Path(__file__).parents[2] / "examples"
#: Model servers on EKS whose weights pods read from a bucket, with what a deployment installs for them.
WEIGHTS = """\
version: 1
name: pods
region: us-east-1
orchestrator: eks
network: { availability_zone: us-east-1a }
eks: { software: { apply: true } }
inference:
  fleets:
    chat:
      instance_type: g6e.12xlarge
      nodes: 1
      server: { image: "vllm/vllm-openai:v0.21.0", weights: { s3_uri: "s3://my-models/llama" } }
"""
#: Home directories of both services, which a fleet mounts. A brake stops the fleet.
HOMES = """version: 1
name: homes
region: us-east-1
network: { availability_zone: us-east-1a }
data:
  homes: { openzfs: { quotas: [{ id: 2001, storage_gib: 100 }] } }
  tools: { efs: {} }
training: { fleets: { dev: { instance_type: g6.xlarge, nodes: 1, mounts: { /home: homes, /opt/shared: tools } } } }
monitoring: { dashboard: true, budget: { usd_per_month: 500, emails: [ops@example.org], brake: { fleets: [dev] } } }
"""
Define = Callable[[cdk.App], object]


@pytest.fixture(scope="session")
def packs() -> Packs:
    """The packs, started once."""
    return Packs()


@pytest.fixture(scope="session")
def assemblies(packs: Packs, app_factory: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Assembly]:
    """Every app by name."""
    written = {}
    texts = {"every store": CLUSTER, "every key of inference": EVERYTHING, "weights for pods": WEIGHTS, "homes": HOMES}
    for name, text in texts.items():
        file = tmp_path_factory.mktemp("cluster") / "cluster.yaml"
        file.write_text(text, encoding="utf-8")
        written[name] = cluster(file)
    return {
        name: packs.assemble(name, app_factory(context=REPORT_ONLY, flags="without flags" not in name), define)
        for name, define in {**clusters(), **written, **python_apps(), **stacks()}.items()
    }


def clusters() -> dict[str, Define]:
    """The examples that are cluster files."""
    return {file.name: cluster(file) for file in sorted(EXAMPLES.glob("*.yaml"))}


def cluster(file: Path) -> Define:
    """The app of a cluster file."""
    return lambda app: build_cluster(app, load_cluster(file))


def python_apps() -> dict[str, Define]:
    """The examples that are CDK apps; each makes its own `cdk.App()`, and gets ours."""

    def run(file: Path) -> Define:
        def define(app: cdk.App) -> None:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(cdk, "App", lambda: app)
                runpy.run_path(str(file))

        return define

    return {file.parent.name: run(file) for file in sorted(EXAMPLES.glob("*/app.py"))}


def stacks() -> dict[str, Define]:
    """The stacks with everything on, where the Region is known, and where only a deployment knows it, without flags."""
    parts = {
        "training": define_training,
        "stores": define_stores,
        "serving": define_serving,
        "variants": define_variants,
        "monitoring": define_monitoring,
        "node groups": define_node_groups,
        "eks": define_eks,
        "pcs": define_pcs,
        "batch": define_batch,
        "hyperpod": define_hyperpod,
        "parallelcluster": define_parallelcluster,
    }
    places = ("commercial", "agnostic without flags")

    def stack(part: str, place: str) -> Define:
        env, zone = ENVIRONMENTS[place.partition(" ")[0]]
        return lambda app: parts[part](app, env, zone)

    return {f"{part} {place}": stack(part, place) for part in parts for place in places}
