"""A cluster file as its readers see it: what its fleets ask for, and what becomes of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cdk_gpu_clusters.errors import Finding, defined_rules
from cdk_gpu_clusters.template_rules.engine import not_compliant
from cdk_gpu_clusters_stacks.app import build_cluster
from cdk_gpu_clusters_stacks.spec.load import read_cluster
from matrix.batches import new_app
from matrix.cloud import Cloud
from matrix.cluster_files import ClusterFile
from matrix.cluster_fleets import SCRIPT
from matrix.invariant import Violation, violations
from matrix.nodes import Nodes
from matrix.scenario import Asked, Purchase
from matrix.template_rules import ask_rules

#: AWS EC2 user guide, "Placement groups": instances of a spread group that run in a zone at most.
_SPREAD_PER_ZONE = 7


@dataclass(frozen=True, slots=True)
class Judgement:
    """What became of a cluster file: findings that refuse it, or its nodes by fleet.

    Attributes:
        refusals: The findings.
        nodes: The nodes.
        fired: Faults that the rules over templates find, and no construct said itself.
    """

    refusals: tuple[Finding, ...]
    nodes: Mapping[str, Nodes]
    fired: tuple[str, ...] = ()

    @property
    def violations(self) -> list[tuple[str, Violation]]:
        """The invariants that its templates break, each with the fleet."""
        return [(name, each) for name, nodes in self.nodes.items() for each in violations(nodes)]


def judge(file: ClusterFile) -> Judgement:
    """Read a cluster file, and synthesize what it accepts."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "cluster.yaml")
        path.write_text(file.text, encoding="utf-8")
        Path(folder, SCRIPT).write_text(file.script, encoding="utf-8")
        reading = read_cluster(path)
        for finding in reading.findings:
            assert finding.id in defined_rules(), finding
            assert re.fullmatch(rf"{re.escape(str(path))}:\d+:\d+", finding.path), finding
        if reading.spec is None:
            return Judgement(reading.findings, {})
        app = new_app(str(Path(folder, "cdk.out")))
        build_cluster(app, reading.spec)
        app.synth()
        cloud = Cloud.read(app.outdir)
        told = {finding.id for finding in reading.findings} | _told_in(Path(app.outdir))
    said = ask_rules(cloud.templates, reading.spec.region)
    faults = not_compliant(verdict for verdicts in said.values() for verdict in verdicts)
    nodes = _nodes(cloud, file.data)
    fired = tuple(f"{fault.rule.id}: {fault.message}" for fault in faults if fault.rule.id not in told)
    return Judgement((), nodes, fired)


def _told_in(folder: Path) -> set[str]:
    """The ids of what constructs said to their user."""
    texts = (file.read_text(encoding="utf-8") for file in folder.glob("*.metadata.json"))
    return {rule for text in texts for rule in re.findall(r"GPU-[A-Z0-9]+-[0-9]+", text)}


def _nodes(cloud: Cloud, cluster: Mapping[str, Any]) -> dict[str, Nodes]:
    templates = {place.stack: place for place in cloud.of_type("AWS::EC2::LaunchTemplate")}
    return {
        name: Nodes(cloud, templates[f"{cluster['name']}-{kind}-{name}"], asked_of(cluster, part, name))
        for part, kind in (("training", "fleet"), ("inference", "inference"))
        for name in cluster.get(part, {}).get("fleets", {})
    }


def asked_of(cluster: Mapping[str, Any], part: str, name: str) -> Asked:
    """What a fleet of a cluster file asks for, as the documentation of the file has.

    Args:
        cluster: The file.
        part: `training` or `inference`.
        name: The fleet.
    """
    fleet, network = cluster[part]["fleets"][name], cluster["network"]
    image, mounts, layout = fleet.get("image", {}), fleet.get("mounts", {}), fleet.get("mig")
    is_own, trains = "id" in image or "parameter" in image, part == "training"
    stores = [cluster["data"][store] for store in dict.fromkeys(mounts.values())]
    here = dict.fromkeys(network.get("subnet_ids", ()), network["availability_zone"])
    asked = Asked(
        instance_type=fleet["instance_type"],
        efa=fleet.get("efa") if trains else False,
        policy=fleet.get("interface_policy"),
        system=image.get("os", "al2023" if is_own else None),
        image_id=image.get("id"),
        image_parameter=image.get("parameter"),
        minimum=fleet.get("nodes", fleet.get("min_nodes")),
        maximum=fleet.get("nodes", fleet.get("max_nodes")),
        zone=network["availability_zone"],
        zones={**{subnet: zone for zone, subnet in network.get("service_subnets", {}).items()}, **here},
        is_public=network.get("public", False),
        placement=fleet.get("placement") if trains else _spread(fleet),
        rolling=fleet.get("update", "never" if trains else "rolling") == "rolling",
        tags={"gpu-cluster": cluster["name"], **cluster.get("tags", {}), **fleet.get("tags", {})},
        partition=";".join(layout) if isinstance(layout, list) else layout,
        mounts=tuple(mounts),
        server_groups=tuple(
            store["existing_lustre"]["security_group_id"] for store in stores if "existing_lustre" in store
        ),
        environment=fleet.get("environment", {}),
        **_joined(cluster),
    )
    return asked.buying(_purchase(fleet, asked))


def _joined(cluster: Mapping[str, Any]) -> dict[str, Any]:
    """What changes with `orchestrator: eks` and `orchestrator: pcs`."""
    if cluster.get("orchestrator") == "pcs":
        groups = cluster.get("pcs", {}).get("existing", {}).get("security_group_ids", [None])
        return {"orchestrator": "pcs", "cluster_group": groups[0]}
    if cluster.get("orchestrator") != "eks":
        return {}
    existing = cluster.get("eks", {}).get("existing", {})
    return {
        "orchestrator": "eks-managed",
        "is_node_group": True,
        "cluster_group": existing.get("cluster_security_group_id"),
    }


def _spread(fleet: Mapping[str, Any]) -> str | None:
    """Placement of inference nodes: apart from each other where that is possible, in two zones; reserved ones as such."""
    capacity = fleet.get("capacity", "on_demand")
    if not isinstance(capacity, str) and "spot" not in capacity:
        return None
    return "spread" if fleet.get("nodes", fleet.get("max_nodes")) <= 2 * _SPREAD_PER_ZONE else "none"


def _purchase(fleet: Mapping[str, Any], asked: Asked) -> Purchase:
    capacity = fleet.get("capacity", "on_demand")
    match capacity:
        case "on_demand":
            return Purchase()
        case "spot":
            return Purchase(kind="spot")
        case {"spot": options}:
            return Purchase(kind="spot", max_price=options.get("max_price_usd_per_hour"))
        case {"new_reservation": _}:
            in_group = asked.placement == "cluster" or (asked.wants_efa and asked.placement is None)
            return Purchase(kind="odcr", is_made_here=True, is_in_group=in_group)
        case {"reservation": target} | {"reservation_group": target} if "ends_at" not in capacity:
            group = capacity.get("placement_group", "none")
            return Purchase(kind="odcr", target=target, placement_group=None if group == "none" else group)
    is_ultra = "ultraserver_block" in capacity
    starts_at = capacity.get("starts_at")
    return Purchase(
        kind="ultraserver-block" if is_ultra else "capacity-block",
        target=capacity["ultraserver_block" if is_ultra else "capacity_block"],
        block_id=capacity.get("reservation") if is_ultra else capacity["capacity_block"],
        starts_at=None if starts_at is None else datetime.fromisoformat(starts_at),
        ends_at=datetime.fromisoformat(capacity["ends_at"]),
    )
