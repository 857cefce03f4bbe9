"""Clusters of SageMaker HyperPod, and edits of their file."""

from __future__ import annotations

_PLAN = "{ training_plan: 'arn:aws:sagemaker:us-east-1:123456789012:training-plan/research' }"

HYPERPOD = f"""\
version: 1
name: lab
region: us-east-1
orchestrator: hyperpod-slurm
network: {{ availability_zone: us-east-1a, control_availability_zones: [us-east-1a, us-east-1b] }}
data:
  home:
    openzfs: {{ storage_capacity_gib: 1024 }}
  saved:
    checkpoints: {{ bucket_name: lab-saved }}
hyperpod:
  login: {{ nodes: 1, mounts: {{ /home: home }} }}
training:
  fleets:
    trainers:
      instance_type: p5.48xlarge
      nodes: 4
      capacity: {_PLAN}
      checkpoints: saved
      mounts: {{ /home: home }}
    spares: {{ instance_type: g6.12xlarge, nodes: 2 }}
"""
PODS = f"""\
version: 1
name: lab
region: us-east-1
orchestrator: hyperpod-eks
network: {{ availability_zone: us-east-1a, control_availability_zones: [us-east-1a, us-east-1b] }}
hyperpod:
  node_recovery: true
training:
  fleets:
    trainers: {{ instance_type: p5.48xlarge, nodes: 4, capacity: {_PLAN} }}
    slices: {{ instance_type: p4d.24xlarge, nodes: 2, efa: false, mig: '3g.20gb,4g.20gb' }}
"""
_EXISTING = (
    "eks: { existing: { cluster_name: research, cluster_security_group_id: sg-0123456789abcdef0, "
    "kubernetes_version: '1.34' } }\n"
)
_DATABASE = (
    "accounting_database: { endpoint: db.example.com, secret_arn: "
    "'arn:aws:secretsmanager:us-east-1:123456789012:secret:db-AbCdEf' }"
)
_SPARES = "g6.12xlarge, nodes: 2"


def _spares(value: str) -> tuple[str, str, str]:
    return HYPERPOD, _SPARES, f"{_SPARES}, {value}"


def _hyperpod(value: str) -> tuple[str, str, str]:
    return HYPERPOD, "hyperpod:\n", f"hyperpod:\n  {value}\n"


def _without(value: str) -> tuple[str, str, str]:
    return HYPERPOD.replace("hyperpod:\n", f"hyperpod:\n  {value}\n"), f"  {value}\n", ""


def _group(value: str) -> tuple[str, str, str]:
    return _hyperpod(f"groups: {{ spares: {{ {value} }} }}")


EDITS_OF_HYPERPOD = {
    "HyperPod: from Slurm of AWS PCS": (
        HYPERPOD.replace("hyperpod-slurm", "pcs").replace(_PLAN, "on_demand"),
        "orchestrator: pcs",
        "orchestrator: hyperpod-slurm",
    ),
    "HyperPod: to EC2": (HYPERPOD.replace(_PLAN, "on_demand"), "orchestrator: hyperpod-slurm", "orchestrator: ec2"),
    "HyperPod: more nodes": (HYPERPOD, "nodes: 4", "nodes: 8"),
    "HyperPod: another type": (HYPERPOD, "g6.12xlarge", "g6.24xlarge"),
    "HyperPod: another plan": (HYPERPOD, "training-plan/research", "training-plan/next"),
    "HyperPod: from a plan to on demand": (HYPERPOD, _PLAN, "on_demand"),
    "HyperPod: Spot Instances": _spares("capacity: spot"),
    "HyperPod: an image": _spares("image: { id: ami-0123456789abcdef0 }"),
    "HyperPod: a variable": _spares("environment: { A: b }"),
    "HyperPod: fleet tags": _spares("tags: { team: a }"),
    "HyperPod: a script": _spares("user_data: dev-tools.sh"),
    "HyperPod: watch": _spares("watch: { mode: dry-run }"),
    "HyperPod: checkpoints": _spares("checkpoints: saved"),
    "HyperPod: homes": _spares("mounts: { /home: home }"),
    "HyperPod: no alarms": _spares("alarms: { enabled: false }"),
    "HyperPod: EFA": _spares("efa: false"),
    "HyperPod: EFA switched off": (
        HYPERPOD,
        "      checkpoints: saved\n",
        "      checkpoints: saved\n      efa: false\n",
    ),
    "HyperPod: interfaces": (
        HYPERPOD,
        "      checkpoints: saved\n",
        "      checkpoints: saved\n      interface_policy: efa-per-card\n",
    ),
    "HyperPod: a folder of checkpoints": (
        HYPERPOD,
        "checkpoints: saved\n",
        "checkpoints: saved\n      checkpoint_prefix: llama\n",
    ),
    "HyperPod: reading checkpoints": (
        HYPERPOD,
        "checkpoints: saved\n",
        "checkpoints: saved\n      checkpoints_read_only: true\n",
    ),
    "HyperPod: a fleet renamed": (HYPERPOD, "spares:", "others:"),
    "HyperPod: a fleet less": (HYPERPOD, "    spares: { instance_type: g6.12xlarge, nodes: 2 }\n", ""),
    "HyperPod: failed nodes stay": _hyperpod("node_recovery: false"),
    "HyperPod: a larger controller": _hyperpod("controller: { instance_type: m7i.24xlarge }"),
    "HyperPod: continuous provisioning": _hyperpod("continuous_provisioning: false"),
    "HyperPod: continuous provisioning again": _without("continuous_provisioning: false"),
    "HyperPod: tiered checkpoints": (PODS, "node_recovery: true", "tiered_checkpoint_percent: 20"),
    "HyperPod: a database": _hyperpod(_DATABASE),
    "HyperPod: a database less": _without(_DATABASE),
    "HyperPod: larger login nodes": (HYPERPOD, "login: { nodes: 1", "login: { nodes: 1, instance_type: m7i.2xlarge"),
    "HyperPod: no login nodes": (HYPERPOD, "login: { nodes: 1", "login: { nodes: 0"),
    "HyperPod: login nodes without homes": (HYPERPOD, "nodes: 1, mounts: { /home: home }", "nodes: 1"),
    "HyperPod: a partition": _group("partition: other"),
    "HyperPod: a volume": _group("volume_gib: 500"),
    "HyperPod: threads": _group("threads_per_core: 1"),
    "HyperPod: least nodes": _group("least_nodes: 1"),
    "HyperPod: deep health checks": _group("deep_health_checks: [InstanceStress]"),
    "HyperPod: the partition that it has": _group("partition: spares"),
    "HyperPod: tags of all": (f"{HYPERPOD}tags: {{ a: b }}\n", "a: b", "a: c"),
    "HyperPod: from Amazon EKS": (
        PODS.replace("hyperpod-eks", "eks").replace(_PLAN, "spot"),
        "orchestrator: eks",
        "orchestrator: hyperpod-eks",
    ),
    "HyperPod: from Slurm to Amazon EKS": (
        PODS.replace("hyperpod-eks", "hyperpod-slurm").replace(", efa: false, mig: '3g.20gb,4g.20gb'", ""),
        "orchestrator: hyperpod-slurm",
        "orchestrator: hyperpod-eks",
    ),
    "HyperPod: other slices": (PODS, "3g.20gb,4g.20gb", "3g.20gb,3g.20gb"),
    "HyperPod: a release of the image": (
        PODS,
        "node_recovery: true",
        "node_recovery: true\n  groups: { trainers: { image_release: 1.2.3 } }",
    ),
    "HyperPod: in an existing cluster": (PODS, "hyperpod:\n", f"{_EXISTING}hyperpod:\n"),
    "HyperPod: another existing cluster": (
        PODS.replace("hyperpod:\n", f"{_EXISTING}hyperpod:\n"),
        "research",
        "others",
    ),
    "HyperPod: groups of the nodes of an existing cluster": (
        PODS.replace("hyperpod:\n", f"{_EXISTING}hyperpod:\n"),
        "'1.34' }",
        "'1.34', node_security_group_ids: [sg-0123456789abcdef8] }",
    ),
    "HyperPod: another version of Kubernetes": (
        PODS.replace("hyperpod:\n", "eks: { kubernetes_version: '1.33' }\nhyperpod:\n"),
        "1.33",
        "1.34",
    ),
    "HyperPod: a dashboard": (HYPERPOD, "hyperpod:\n", "monitoring: { dashboard: true }\nhyperpod:\n"),
}
