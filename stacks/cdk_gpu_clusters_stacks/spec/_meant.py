"""What people mean by a word, a number or a place that the cluster file has not."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from unicodedata import combining, normalize

from pydantic import BaseModel

from cdk_gpu_clusters.errors import Finding

from ._rules import MAPPING
from .eks import EksSpec
from .fleet import FleetSpec
from .inference import InferenceFleetSpec, LoadBalancerSpec, ServerSpec
from .model import ClusterSpec, TrainingSpec
from .monitoring import BudgetSpec, GrafanaSpec, MetricsSpec, MonitoringSpec
from .network import NewNetwork
from .parallelcluster import HeadNodeSpec, ParallelClusterSpec
from .pcs import LoginNodesSpec, PcsSpec

#: Key of the file that holds fleets -> their model.
FLEET_KINDS: Mapping[str, type[FleetSpec | InferenceFleetSpec]] = {
    "training": FleetSpec,
    "inference": InferenceFleetSpec,
}

#: Words of other tools and of Python -> our key.
SYNONYMS = {
    **dict.fromkeys(
        (
            "count",
            "node_count",
            "num_nodes",
            "number_of_nodes",
            "replicas",
            "size",
            "desired_capacity",
            "desired_size",
            "instance_count",
            "instances",
        ),
        "nodes",
    ),
    **dict.fromkeys(("min", "min_size", "min_count", "min_node_count", "min_capacity"), "min_nodes"),
    **dict.fromkeys(("max", "max_size", "max_count", "max_node_count", "max_capacity"), "max_nodes"),
    **dict.fromkeys(("type", "machine_type", "instance", "instance_types"), "instance_type"),
    **dict.fromkeys(("zone", "az", "availability_zones"), "availability_zone"),
    **dict.fromkeys(("ami", "ami_id", "image_id"), "image"),
    **dict.fromkeys(("disk", "disk_size", "volume", "volume_size", "root_disk", "ebs"), "root_volume"),
    **dict.fromkeys(("env", "envs", "variables"), "environment"),
    **dict.fromkeys(("subnet", "subnets", "subnet_id"), "subnet_ids"),
    **dict.fromkeys(("vpc", "vpc_name"), "vpc_id"),
    **dict.fromkeys(("args", "arguments"), "command"),
    "market": "capacity",
    "userdata": "user_data",
    **dict.fromkeys(("slurm", "aws_pcs"), "pcs"),
    **dict.fromkeys(("pcluster", "aws_parallelcluster"), "parallelcluster"),
    **dict.fromkeys(("partitions", "partition", "slurm_queues"), "queues"),
    "login_nodes": "login",
    **dict.fromkeys(("ldap", "sssd"), "directory"),
    "slurmrestd": "rest_api",
}

#: Mapping of the file -> how it is written.
EXAMPLES = {
    "network": "{availability_zone: us-east-1a}",
    "training": "{fleets: {trainers: {instance_type: g6.xlarge, nodes: 1}}}",
    "inference": "{fleets: {chat: {instance_type: g6.xlarge, nodes: 1, server: {image: vllm/vllm-openai:v0.11.0}}}}",
    "fleets": "{trainers: {instance_type: g6.xlarge, nodes: 1}}",
    "tags": "{project: llama}",
    "data": "{corpus: {lustre: {storage_capacity_gib: 1200, throughput_mb_per_s_per_tib: 125}}}",
    "lustre": "{storage_capacity_gib: 1200, throughput_mb_per_s_per_tib: 125}",
    "openzfs": "{storage_capacity_gib: 1024}",
    "efs": "{}",
    "checkpoints": "{}",
    "environment": "{NCCL_DEBUG: INFO}",
    "mounts": "{/fsx: corpus}",
    "root_volume": "{size_gib: 500}",
    "image": "{id: ami-0123456789abcdef0}",
    "watch": "{mode: dry-run}",
    "alarms": "{enabled: false}",
    "mute": '{cron: "0 2 * * SUN", minutes: 240}',
    "server": "{image: vllm/vllm-openai:v0.11.0}",
    "secrets": "{HF_TOKEN: {arn: arn:aws:secretsmanager:us-east-1:111122223333:secret:hf}}",
    "registry_login": "{arn: arn:aws:secretsmanager:us-east-1:111122223333:secret:registry}",
    "weights": "{s3_uri: s3://my-models/chat}",
    "load_balancer": "{clients: [10.0.0.0/16]}",
    "monitoring": "{dashboard: true}",
    "budget": "{usd_per_month: 50000, emails: [finance@example.org]}",
    "brake": "{fleets: [workers]}",
    "metrics": "{destination: workspace}",
    "grafana": "{authentication: [identity-center]}",
    "eks": '{kubernetes_version: "1.34"}',
    "pcs": '{size: small, slurm_version: "26.05"}',
    "parallelcluster": "{head_node: {instance_type: m7i.xlarge}}",
    "head_node": "{instance_type: m7i.xlarge}",
    "volumes": "{home: fsvol-0123456789abcdef0}",
    "accounting": "{keep_days: 365}",
    "login": "{nodes: 1, mounts: {/home: home}}",
    "queues": "{train: {fleets: [trainers]}}",
    "slurm_settings": "{SchedulerParameters: bf_continue}",
    "node_settings": '{trainers: {Weight: "1"}}',
    "directory": "{uris: [ldaps://ad.example.com], search_base: 'dc=example,dc=com', …}",
    "teams": "{research: {quotas: [{fleet: trainers, nominal: 8}]}}",
    "system_nodes": "{instance_type: m7i.large, nodes: 2}",
    "software": "{apply: true}",
    "object_lock": "{mode: governance, days: 7}",
    "new_reservation": "{end_date: 2026-12-15T11:30Z}",
    "spot": "{max_price_usd_per_hour: 4}",
    "service_subnets": "{us-east-1a: subnet-0123456789abcdef0, us-east-1b: subnet-0123456789abcdef1}",
    "public_subnets": "{us-east-1a: subnet-0123456789abcdef0, us-east-1b: subnet-0123456789abcdef1}",
    "endpoint_access": '{accounts: ["111122223333"]}',
}


def example_of(where: str) -> str:
    """How the mapping at a dotted path is written, in short."""
    above, _, key = where.rpartition(".")
    if above.rpartition(".")[2] == "fleets":
        kind = "inference" if where.startswith("inference") else "training"
        return re.sub(r"^\{fleets: \{\w+: (.*)\}\}$", r"\1", EXAMPLES[kind])
    if above.rpartition(".")[2] == "secrets":
        return "{arn: arn:aws:secretsmanager:us-east-1:111122223333:secret:hf}"
    return EXAMPLES.get(key, "{key: value}")


ROOT_KEYS = frozenset(ClusterSpec.model_fields)


def homes_of(name: str) -> list[str]:
    """The places, in words, at which the format has a key of this name; none if there are more than two."""
    return _homes().get(name, [])


#: Keys that a file of another tool has, and what it is.
_TOOLS: Sequence[tuple[frozenset[str], str]] = (
    (frozenset({"HeadNode"}), "a configuration of AWS ParallelCluster"),
    (frozenset({"Scheduling"}), "a configuration of AWS ParallelCluster"),
    (frozenset({"apiVersion", "managedNodeGroups"}), "a ClusterConfig of eksctl"),
    (frozenset({"apiVersion", "nodeGroups"}), "a ClusterConfig of eksctl"),
    (frozenset({"apiVersion", "kind"}), "a manifest of Kubernetes"),
    (frozenset({"AWSTemplateFormatVersion"}), "a template of CloudFormation"),
    (frozenset({"Resources"}), "a template of CloudFormation"),
    (frozenset({"app", "context"}), "cdk.json"),
    (frozenset({"resources", "run"}), "a task of SkyPilot"),
    (frozenset({"services"}), "a file of Docker Compose"),
    (frozenset({"replicaCount"}), "values of a Helm chart"),
    (frozenset({"type", "resources"}), "a configuration of dstack"),
    (frozenset({"cluster_name", "provider"}), "a configuration of Ray"),
    (frozenset({"on", "jobs"}), "a workflow of GitHub"),
)
_OUR_SECTIONS = ("version", "network", "training", "inference")


def foreign_file(data: Mapping[str, object]) -> Finding | None:
    """A file that was written for another tool; None if it has a section of ours.

    Example:
        >>> foreign_file({"apiVersion": "v1", "kind": "Pod"}).got
        'a manifest of Kubernetes'
    """
    if any(section in data for section in _OUR_SECTIONS):
        return None
    kind = next((name for keys, name in _TOOLS if keys <= data.keys()), None)
    if kind is None:
        return None
    return MAPPING.finding(
        cause="this is not a cluster file",
        got=kind,
        allowed="version: 1, name: …, region: …, network: …, training: …",
        fix="give the path of a cluster file; gpu-clusters init writes one",
    )


@cache
def _homes() -> dict[str, list[str]]:
    homes: dict[str, list[str]] = {name: ["the margin of the file"] for name in ROOT_KEYS}
    places: list[tuple[str, type[BaseModel]]] = [
        ("training", TrainingSpec),
        ("a fleet of training", FleetSpec),
        ("a fleet of inference", InferenceFleetSpec),
        ("server", ServerSpec),
        ("load_balancer", LoadBalancerSpec),
        ("network", NewNetwork),
        ("eks", EksSpec),
        ("pcs", PcsSpec),
        ("login", LoginNodesSpec),
        ("parallelcluster", ParallelClusterSpec),
        ("head_node", HeadNodeSpec),
        ("monitoring", MonitoringSpec),
        ("budget", BudgetSpec),
        ("metrics", MetricsSpec),
        ("grafana", GrafanaSpec),
    ]
    for place, model in places:
        for field in model.model_fields:
            homes.setdefault(field, []).append(place)
    both = ["a fleet of training", "a fleet of inference"]
    return {name: ["a fleet"] if found == both else found for name, found in homes.items() if len(found) <= len(both)}


def meant_key(name: str, known: Sequence[str]) -> str:
    """The key that is meant by a word; empty if none is near."""
    word = name.replace("-", "_").lower()
    near = SYNONYMS.get(word, "")
    if near in known:
        return near
    # Of `difflib`: "regoin" is 0.83 like "region", "count" 0.73 like "mounts", and "eaf" 0.67 like "efa".
    likeness = 0.6 if len(word) <= _SHORT else 0.75
    return next(iter(get_close_matches(word, known, n=1, cutoff=likeness)), "")


_SHORT = 4


def usable_name(text: str) -> str:
    """A name near `text` that can be in a stack name; empty if letters of another alphabet would be lost."""
    text = "".join(one for one in normalize("NFKD", text) if not combining(one))
    if any(one.isalpha() and not one.isascii() for one in text):
        return ""
    kept = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in text.lower())
    kept = "-".join(part for part in kept.split("-") if part).lstrip("0123456789-")
    return kept[:40].strip("-") or "trainers"


_QUANTITY = re.compile(r"[$]?(\d[\d_,]*(?:\.\d+)?)\s*([a-z/]*)", re.IGNORECASE)
#: Units of a key's name -> units that people write -> how many of the key's they are.
_UNITS = {
    "gib": {"": 1, "g": 1, "gb": 1, "gib": 1, "t": 1024, "tb": 1024, "tib": 1024},
    "storage_capacity_gib": {"": 1, "g": 1, "gb": 1, "gib": 1, "t": 1000, "tb": 1000, "tib": 1024},
    "seconds": {"": 1, "s": 1, "sec": 1, "seconds": 1, "m": 60, "min": 60, "minutes": 60, "h": 3600},
    "minutes": {"": 1, "m": 1, "min": 1, "minutes": 1, "h": 60, "hours": 60},
    "days": {"": 1, "d": 1, "day": 1, "days": 1, "w": 7, "weeks": 7},
}


def number_in(value: object, where: str) -> str:
    """The number that was meant by a value of the wrong form, as YAML has it; empty if that is not clear."""
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else ""
    if not isinstance(value, str):
        return ""
    if re.fullmatch(r"0[xo][0-9a-f]{1,8}", value, re.IGNORECASE):
        return str(int(value, 0))
    found = _QUANTITY.fullmatch(value.strip())
    if found is None or len(found[1]) > _MOST_DIGITS:
        return ""
    key = where.rpartition(".")[2]
    units = _UNITS.get(key) or _UNITS.get(key.rpartition("_")[2], {"": 1})
    factor = units.get(found[2].lower())
    if factor is None:
        return ""
    number = float(re.sub("[_,]", "", found[1])) * factor
    return str(int(number)) if number.is_integer() else ""


_MOST_DIGITS = 15
