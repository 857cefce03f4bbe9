"""Clusters and edits of their files, each of which changes something: for what says beforehand what that will be."""

from __future__ import annotations

from pathlib import Path

from cluster_files.batch_edits import EDITS_OF_BATCH
from cluster_files.hyperpod_edits import EDITS_OF_HYPERPOD
from cluster_files.orchestrators import OF_OTHERS
from cluster_files.parallelcluster_edits import EDITS_OF_PARALLELCLUSTER
from cluster_files.pcs_edits import EDITS_OF_PCS
from cluster_files.store_edits import CLUSTER as STORES
from cluster_files.store_edits import HARMFUL, HARMLESS

_SCRIPT = Path(__file__).resolve().parents[3] / "examples" / "dev-tools.sh"


def write(folder: Path, text: str) -> Path:
    """Write a file's text, and the script that it may name, which lies in the same folder."""
    (folder / _SCRIPT.name).write_text(_SCRIPT.read_text("utf-8"), encoding="utf-8")
    (folder / "dev-users.yaml").write_text("users: [{ name: alice, uid: 2001 }]\n", encoding="utf-8")
    file = folder / "cluster.yaml"
    file.write_text(text, encoding="utf-8")
    return file


BLOCK = """\
version: 1
name: lab
region: us-east-1
tags: { project: llama }
network: { availability_zone: us-east-1a, control_availability_zones: [us-east-1a, us-east-1b] }
training:
  fleets:
    trainers:
      instance_type: p5.48xlarge
      nodes: 4
      capacity: { capacity_block: cr-0123456789abcdef0, starts_at: 2026-12-01T11:30Z, ends_at: 2026-12-15T11:30Z }
    reserved:
      instance_type: p4d.24xlarge
      nodes: 4
      capacity: { new_reservation: { end_date: 2027-01-31T00:00Z } }
      fabric: second
      root_volume: { size_gib: 300 }
inference:
  fleets:
    chat:
      instance_type: g6.12xlarge
      min_nodes: 2
      max_nodes: 4
      server: { image: "vllm/vllm-openai:v0.11.0" }
      load_balancer: { plain_http: true, clients: [10.0.0.0/16] }
      requests_per_minute_per_node: 60
"""
_BLOCK = "{ capacity_block: cr-0123456789abcdef0, starts_at: 2026-12-01T11:30Z, ends_at: 2026-12-15T11:30Z }"
_SECOND = "cr-0fedcba9876543210, starts_at: 2026-12-15T11:30Z, ends_at: 2026-12-29T11:30Z"
_BLOCKS = f"{{ capacity_blocks: [{_BLOCK}, {{ capacity_block: {_SECOND}, nodes: 4 }}] }}"
TWO_BLOCKS = BLOCK.replace(_BLOCK, _BLOCKS)
RESERVED = BLOCK.replace(_BLOCK, "{ reservation: cr-0123456789abcdef0 }")
_KEY = "arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
_CHAT = "      instance_type: g6.12xlarge\n"

TRAINING = """\
version: 1
name: lab
region: us-east-1
network: { availability_zone: us-east-1a }
data:
  corpus:
    lustre: { storage_capacity_gib: 38400, throughput_mb_per_s_per_tib: 250, efa: true }
  checkpoints:
    checkpoints: { express_zone_id: use1-az4 }
training:
  fleets:
    trainers: { instance_type: p5.48xlarge, nodes: 4, capacity: spot, mounts: { /fsx: corpus }, checkpoints: checkpoints }
    second: { instance_type: p5.48xlarge, nodes: 2, capacity: spot }
    helpers: { instance_type: m8g.4xlarge, nodes: 2, mounts: { /fsx: corpus } }
"""

MONITORED = (
    TRAINING + "monitoring:\n  dashboard: true\n  budget: { usd_per_month: 50000, emails: [finance@example.org] }\n"
)
SCRAPED = TRAINING + "monitoring:\n  metrics: { destination: workspace, exporters: [dcgm] }\n"
INSTALLED = SCRAPED.replace("[dcgm]", "[dcgm], install_exporters: true")
_MUTE = "mute: { cron: '0 2 * * SUN', minutes: 240, time_zone: Europe/Berlin }"
_MAILS, _TOPIC = "emails: [finance@example.org]", "topic_arn: 'arn:aws:sns:us-east-1:111122223333:costs'"

SMALL = """\
version: 1
name: lab
region: us-east-1
network: { availability_zone: us-east-1a }
training:
  fleets:
    trainers: { instance_type: trn1.32xlarge, nodes: 2 }
    helpers: { instance_type: m8g.4xlarge, nodes: 2 }
"""

EXISTING = """\
version: 1
name: lab
region: us-east-1
network:
  vpc_id: vpc-0123456789abcdef0
  subnet_ids: [subnet-0123456789abcdef0]
  availability_zone: us-east-1a
  service_subnets: { us-east-1a: subnet-0123456789abcdef1, us-east-1b: subnet-0123456789abcdef2 }
  public_subnets: { us-east-1a: subnet-0123456789abcdef3, us-east-1b: subnet-0123456789abcdef4 }
data:
  corpus:
    existing_lustre:
      { file_system_id: fs-0123456789abcdef0, mount_name: abcdefgh, security_group_id: sg-0123456789abcdef0 }
training:
  fleets:
    trainers: { instance_type: p5.48xlarge, nodes: 2, capacity: spot, mounts: { /fsx: corpus } }
    helpers: { instance_type: m8g.4xlarge, nodes: 2, mounts: { /fsx: corpus } }
inference:
  fleets:
    chat:
      instance_type: g6.12xlarge
      nodes: 2
      server: { image: "vllm/vllm-openai:v0.11.0" }
      load_balancer: { certificate_arn: "arn:aws:acm:us-east-1:123456789012:certificate/0", clients: [10.0.0.0/16] }
"""

_EXISTING_EKS = """\
orchestrator: eks
eks:
  existing:
    cluster_name: research
    cluster_security_group_id: sg-0123456789abcdef9
    kubernetes_version: "1.34"
    kubectl_role_arn: "arn:aws:iam::111122223333:role/installer"
"""
_APPLIED = "  software: { apply: true, trainer: false }\n"
#: A fleet of model servers with bounds, and the section of the cluster last.
SERVED_ON_EKS = """\
version: 1
name: lab
region: us-east-1
orchestrator: eks
network: { availability_zone: us-east-1a }
inference:
  fleets:
    chat:
      instance_type: g6.xlarge
      min_nodes: 1
      max_nodes: 4
      server: { image: "vllm/vllm-openai:v0.21.0", command: ["--model", "Qwen/Qwen3-8B", "--max-model-len", "16384"] }
eks:
  software: { apply: true }
"""
_KUBECTL = "  kubectl: { x86_64: { url: s3://my-tools/kubectl, sha256: " + "ab" * 32 + " } }\n"
_MADE_EKS = """\
orchestrator: eks
eks:
  kubernetes_version: "1.34"
  public_access_cidrs: [203.0.113.0/24]
  admin_principal_arns: ["arn:aws:iam::111122223333:role/platform"]
  system_nodes: { instance_type: m7i.xlarge, nodes: 3 }
"""
_TEAMS = "  teams: { research: { quotas: [{ fleet: trainers, nominal: 8 }] } }\n"
_EC2 = "orchestrator: ec2\n"


def _on(orchestrator: str, text: str) -> str:
    """A cluster file with its orchestrator said."""
    return text.replace("region: us-east-1\n", f"region: us-east-1\n{orchestrator}", 1)


#: The same clusters as node groups of EKS.
ON_EKS = {
    name: _on(_EXISTING_EKS, text) for name, text in {"block": BLOCK, "training": TRAINING, "small": SMALL}.items()
}


def _on_ec2(text: str) -> str:
    """The text of an example, with its orchestrator as a key."""
    return text if _EC2 in text else text.replace("\nregion:", f"\n{_EC2}region:", 1)


#: Karpenter launches the second fleet.
POOLED = _on(_EXISTING_EKS + _APPLIED, SMALL).replace(
    "m8g.4xlarge, nodes: 2 }", "m8g.4xlarge, nodes: 2, managed_by: karpenter }"
)

#: Examples that EKS refuses, and why.
REFUSED_BY_EKS = {
    "p5en-spot": "GPU-EKS-041",  # a limit of the spot price
    "p6-b300-existing-reservation": "GPU-SPEC-035",  # an existing network of one zone, and an image of one's own
    "p6e-gb200-ultraserver": "GPU-EKS-040",  # an UltraServer block without its id
}
#: UltraServers of a block that has an id.
RACK = (
    (_SCRIPT.parent / "p6e-gb200-ultraserver.yaml")
    .read_text("utf-8")
    .replace("        starts_at", "        reservation: cr-0123456789abcdef0\n        starts_at")
)
#: The others with their orchestrator said.
EXAMPLES_ON_EC2 = {
    path.stem: _on_ec2(path.read_text("utf-8"))
    for path in sorted(_SCRIPT.parent.glob("*.yaml"))
    if not path.stem.startswith(OF_OTHERS) and path.stem not in REFUSED_BY_EKS
}

#: Name -> text of the file, text before, text after: another orchestrator, and edits of node groups.
_EDITS_OF_EKS: dict[str, tuple[str, str, str]] = {
    **{f"{name} from EC2 to EKS": (text, _EC2, "orchestrator: eks\n") for name, text in EXAMPLES_ON_EC2.items()},
    "a block from EC2 to EKS": (_on(_EC2, BLOCK), _EC2, _EXISTING_EKS),
    "a block from EKS to EC2": (ON_EKS["block"], _EXISTING_EKS, _EC2),
    "EFA and Lustre from EC2 to EKS": (_on(_EC2, TRAINING), _EC2, _EXISTING_EKS),
    "alarms by mail from EC2 to EKS": (
        _on(_EC2, SMALL).replace("nodes: 2 }", "nodes: 2, alarms: { emails: [a@example.org] } }", 1),
        _EC2,
        _EXISTING_EKS,
    ),
    "a closed network from EC2 to EKS": (
        _on(_EC2, SMALL).replace("us-east-1a }", "us-east-1a, egress: closed }"),
        _EC2,
        _EXISTING_EKS,
    ),
    "to a cluster of EKS made here": (_on(_EC2, BLOCK), _EC2, "orchestrator: eks\n"),
    "back from a cluster of EKS made here": (_on(_MADE_EKS, SMALL), _MADE_EKS, _EC2),
    "EKS: its version": (_on(_MADE_EKS, SMALL), '"1.34"', '"1.35"'),
    "EKS: its endpoint": (_on(_MADE_EKS, SMALL), "203.0.113.0/24", "198.51.100.0/24"),
    "EKS: its admins": (_on(_MADE_EKS, SMALL), "role/platform", "role/others"),
    **{
        f"EKS: {said}": (
            _on(_MADE_EKS, SMALL),
            '  kubernetes_version: "1.34"\n',
            f'  kubernetes_version: "1.34"\n  control_plane: {{ {said} }}\n',
        )
        for said in ("tier: tier-xl", "egress_mode: CUSTOMER_ROUTED", "support_type: STANDARD", "pack_devices: false")
    },
    "EKS: metrics": (
        _on(_MADE_EKS, SMALL).replace(
            "us-east-1a }", "us-east-1a, control_availability_zones: [us-east-1a, us-east-1b] }"
        ),
        "training:",
        "monitoring: { metrics: { destination: workspace } }\ntraining:",
    ),
    "EKS: metrics of another cluster": (
        _on(_EXISTING_EKS, SCRAPED),
        "cluster_name: research",
        "cluster_name: production",
    ),
    "EKS: metrics of a fleet less": (
        _on(_EXISTING_EKS, SCRAPED),
        "    second: { instance_type: p5.48xlarge, nodes: 2, capacity: spot }\n",
        "",
    ),
    "metrics from EC2 to EKS": (_on(_EC2, SCRAPED), _EC2, _EXISTING_EKS),
    "EKS: more system nodes": (_on(_MADE_EKS, SMALL), "nodes: 3 }", "nodes: 4 }"),
    "EKS: other system nodes": (_on(_MADE_EKS, SMALL), "m7i.xlarge", "m7i.2xlarge"),
    "EKS: other service subnets": (
        _on(_MADE_EKS, EXISTING),
        "subnet-0123456789abcdef2",
        "subnet-0123456789abcdefb",
    ),
    "EKS: tags of all": (_on(f"{_MADE_EKS}tags: {{ a: b }}\n", SMALL), "a: b", "a: c"),
    "EKS: software installed": (
        _on(_EXISTING_EKS + _APPLIED, TRAINING),
        "software: { apply: true",
        "software: { apply: false",
    ),
    "EKS: software in a closed network": (
        _on(_EXISTING_EKS + _APPLIED, SMALL)
        .replace("us-east-1a }", "us-east-1a, egress: closed }")
        .replace("trainer: false", "mirror: 111122223333.dkr.ecr.us-east-1.amazonaws.com/mirror")
        .replace("trn1.32xlarge, nodes: 2", "g6.xlarge, nodes: 2"),
        "software: { apply: true",
        "software: { apply: false",
    ),
    "EKS: software that follows its fleets": (
        _on(_EXISTING_EKS + _APPLIED, TRAINING),
        "nodes: 4, capacity: spot",
        "nodes: 4, capacity: spot, efa: false",
    ),
    "EKS: software with the trainer": (
        _on(_EXISTING_EKS + _APPLIED, TRAINING),
        "apply: true, trainer: false",
        "apply: true, trainer: true",
    ),
    "EKS: the first team": (
        _on(_EXISTING_EKS + _APPLIED, TRAINING),
        _APPLIED,
        _APPLIED + _TEAMS,
    ),
    "EKS: members of a team": (
        _on(_MADE_EKS + _TEAMS, SMALL).replace("trn1.32xlarge, nodes: 2", "g6.xlarge, nodes: 8"),
        "nominal: 8 }] }",
        'nominal: 8 }], principal_arns: ["arn:aws:iam::111122223333:role/research"] }',
    ),
    "EKS: software with Ray": (
        _on(_EXISTING_EKS + _APPLIED, TRAINING),
        "apply: true, trainer: false",
        "apply: true, trainer: false, ray: true",
    ),
    "EKS: from a managed node group to Karpenter": (POOLED, "managed_by: karpenter", "managed_by: eks"),
    "EKS: from Karpenter to a managed node group": (
        POOLED.replace("managed_by: karpenter", "managed_by: eks"),
        "managed_by: eks",
        "managed_by: karpenter",
    ),
    "EKS: another type of a node pool": (POOLED, "m8g.4xlarge", "m8g.8xlarge"),
    "EKS: another user data of a node pool": (
        POOLED,
        "nodes: 2, managed_by",
        "nodes: 2, watch: { mode: off }, managed_by",
    ),
    "EKS: Karpenter in a closed network": (
        POOLED.replace("us-east-1a }", "us-east-1a, egress: closed }").replace(
            "trainer: false", "mirror: 111122223333.dkr.ecr.us-east-1.amazonaws.com/mirror"
        ),
        "managed_by: karpenter",
        "managed_by: eks",
    ),
    "EKS: the Cluster Autoscaler": (
        _on(_EXISTING_EKS + _APPLIED, SMALL).replace(
            "trn1.32xlarge, nodes: 2", "g6.xlarge, min_nodes: 0, max_nodes: 2"
        ),
        "trainer: false",
        "trainer: false, cluster_autoscaler: true",
    ),
    "EKS: software with Slurm": (
        _on(_EXISTING_EKS + _APPLIED, TRAINING),
        "apply: true, trainer: false",
        "apply: true, trainer: false, slurm: { fleets: [trainers, helpers] }",
    ),
    "EKS: software with ComputeDomains": (
        _on(_EXISTING_EKS + _APPLIED, RACK),
        "apply: true, trainer: false",
        "apply: true, trainer: false, compute_domains: true",
    ),
    "EKS: software with EFA by claims": (
        _on(_EXISTING_EKS + _APPLIED, TRAINING),
        "apply: true, trainer: false",
        "apply: true, trainer: false, efa: dra-driver",
    ),
    "EKS: the next block of UltraServers": (
        _on(_EXISTING_EKS, RACK),
        "reservation: cr-0123456789abcdef0",
        "reservation: cr-0123456789abcdef1",
    ),
    "EKS: one address for its models": (
        SERVED_ON_EKS,
        "  software: { apply: true }\n",
        "  software: { apply: true }\n  gateway: { plain_http: true, clients: [10.0.0.0/8] }\n",
    ),
    "EKS: a model over more nodes": (
        _on(_EXISTING_EKS + _APPLIED, RACK)
        .replace("trainer: false", "compute_domains: true")
        .replace("training:", "inference:")
        .replace("nodes: 9", "nodes: 9\n      nodes_per_server: 5\n      server: { image: vllm/vllm-openai:v0.21.0 }"),
        "nodes_per_server: 5",
        "nodes_per_server: 9",
    ),
    "EKS: another name of its models": (
        SERVED_ON_EKS + "  gateway: { plain_http: true, clients: [10.0.0.0/8], hostname: a.example.org }\n",
        "a.example.org",
        "b.example.org",
    ),
    "EKS: its models chosen by queue and cache": (
        SERVED_ON_EKS + "  gateway: { plain_http: true, clients: [10.0.0.0/8] }\n",
        "clients: [10.0.0.0/8]",
        "clients: [10.0.0.0/8], inference_extension: true",
    ),
    "EKS: its name in a hosted zone": (
        SERVED_ON_EKS + "  gateway: { plain_http: true, clients: [10.0.0.0/8], hostname: a.example.org }\n",
        "hostname: a.example.org",
        "hostname: a.example.org, hosted_zone: { zone_id: Z0123456789ABCDEFGHIJ, zone_name: example.org }",
    ),
    "EKS: servers that follow their queue": (
        SERVED_ON_EKS + "monitoring: { metrics: { destination: workspace } }\n",
        "apply: true }",
        "apply: true, keda: true }",
    ),
    "EKS: new versions tried first": (
        SERVED_ON_EKS.replace("apply: true }", "apply: true, argo_rollouts: true }")
        + "monitoring: { metrics: { destination: workspace } }\n",
        "      max_nodes: 4\n",
        "      max_nodes: 4\n      canary: { spare_servers: 1 }\n",
    ),
    "EKS: what tries new versions": (
        SERVED_ON_EKS + "monitoring: { metrics: { destination: workspace } }\n",
        "apply: true }",
        "apply: true, argo_rollouts: true }",
    ),
    "EKS: kubectl for its nodes": (
        _on(_EXISTING_EKS + _KUBECTL, TRAINING),
        "my-tools/kubectl",
        "my-tools/newer",
    ),
    "EKS: software that stays": (
        _on(_EXISTING_EKS + _APPLIED, TRAINING),
        "nodes: 4, capacity: spot",
        "nodes: 4, capacity: spot, environment: { A: b }",
    ),
    "EKS: EFA switched off": (
        ON_EKS["training"],
        "nodes: 4, capacity: spot",
        "nodes: 4, capacity: spot, efa: false",
    ),
    "EKS: no placement group": (
        ON_EKS["training"],
        "nodes: 4, capacity: spot",
        "nodes: 4, capacity: spot, placement: none",
    ),
    "EKS: more IP bandwidth": (
        ON_EKS["training"],
        "nodes: 4, capacity: spot",
        "nodes: 4, capacity: spot, interface_policy: maximum-ena-bandwidth",
    ),
    "EKS: reservation without EFA": (ON_EKS["block"], "fabric: second", "efa: false"),
    "EKS: reservation given up": (
        ON_EKS["block"],
        "{ new_reservation: { end_date: 2027-01-31T00:00Z } }",
        "on_demand",
    ),
    "EKS: from a block to a reservation": (ON_EKS["block"], _BLOCK, "{ reservation: cr-0fedcba9876543210 }"),
    "EKS: another fabric": (
        ON_EKS["training"],
        "nodes: 2, capacity: spot",
        "nodes: 2, capacity: spot, fabric: own",
    ),
    "EKS: on demand": (ON_EKS["training"], "nodes: 4, capacity: spot", "nodes: 4"),
    "EKS: updates that roll": (
        ON_EKS["training"],
        "nodes: 4, capacity: spot",
        "nodes: 4, capacity: spot, update: rolling",
    ),
    "EKS: root volume with a key": (
        ON_EKS["block"],
        "size_gib: 300",
        f"size_gib: 300, encryption_key_arn: '{_KEY}'",
    ),
    "EKS: a variable": (
        ON_EKS["training"],
        "nodes: 4, capacity: spot",
        "nodes: 4, capacity: spot, environment: { A: b }",
    ),
    "EKS: fleet tags": (
        ON_EKS["training"],
        "nodes: 4, capacity: spot",
        "nodes: 4, capacity: spot, tags: { team: a }",
    ),
    "EKS: another mount point": (ON_EKS["training"], "mounts: { /fsx: corpus }", "mounts: { /data: corpus }"),
    "EKS: more nodes": (ON_EKS["training"], "nodes: 4, capacity: spot", "nodes: 6, capacity: spot"),
    "EKS: a range of nodes": (
        ON_EKS["training"],
        "nodes: 2, mounts: { /fsx: corpus }",
        "min_nodes: 0, max_nodes: 2, mounts: { /fsx: corpus }",
    ),
    "EKS: no scratch": (
        ON_EKS["training"],
        "nodes: 4, capacity: spot",
        "nodes: 4, capacity: spot, scratch: false",
    ),
    "EKS: a script": (ON_EKS["small"], "nodes: 2 }", f"nodes: 2, user_data: '{_SCRIPT.name}' }}"),
    "EKS: no alarms": (ON_EKS["small"], "nodes: 2 }", "nodes: 2, alarms: { enabled: false } }"),
    "EKS: alarms by mail": (ON_EKS["small"], "nodes: 2 }", "nodes: 2, alarms: { emails: [a@example.org] } }"),
    "EKS: idle alarm later": (
        ON_EKS["training"],
        "nodes: 4, capacity: spot",
        "nodes: 4, capacity: spot, alarms: { idle_minutes: 30 }",
    ),
    "EKS: alarms on launches": (
        ON_EKS["small"],
        "nodes: 2 }",
        "nodes: 2, alarms: { abandoned_launches_per_node: 9, suspends_launching: false } }",
    ),
    "EKS: another type": (ON_EKS["small"], "trn1.32xlarge", "p4d.24xlarge"),
    "EKS: slices": (
        ON_EKS["small"].replace("trn1.32xlarge, nodes: 2", "p4d.24xlarge, nodes: 2, efa: false"),
        "efa: false",
        'efa: false, mig: "3g.20gb,3g.20gb"',
    ),
    "EKS: another cluster": (ON_EKS["small"], "cluster_name: research", "cluster_name: production"),
    "EKS: another group of the cluster": (ON_EKS["small"], "sg-0123456789abcdef9", "sg-0123456789abcdef8"),
    "EKS: another version, where updates roll": (
        ON_EKS["small"].replace("nodes: 2 }", "nodes: 2, update: rolling }"),
        '"1.34"',
        '"1.35"',
    ),
    "EKS: another version": (ON_EKS["small"], '"1.34"', '"1.35"'),
    "EKS: another subnet": (
        _on(_EXISTING_EKS, EXISTING),
        "subnet-0123456789abcdef0",
        "subnet-0123456789abcdefa",
    ),
    "EKS: later end of the block": (ON_EKS["block"], "2026-12-15T11:30Z", "2026-12-22T11:30Z"),
    "EKS: another block": (ON_EKS["block"], "cr-0123456789abcdef0", "cr-0fedcba9876543210"),
    "EKS: fewer nodes on a block": (
        ON_EKS["block"],
        "nodes: 4\n      capacity: { capacity_block",
        "nodes: 2\n      capacity: { capacity_block",
    ),
    "EKS: more reserved nodes": (
        ON_EKS["block"],
        "nodes: 4\n      capacity: { new",
        "nodes: 6\n      capacity: { new",
    ),
    "EKS: other cluster tags": (ON_EKS["block"], "project: llama", "project: moe"),
    "EKS: another rate": (ON_EKS["block"], "per_node: 60", "per_node: 90"),
    "EKS: groups of servers": (ON_EKS["block"], _CHAT, f"{_CHAT}      devices_per_server: 2\n"),
}

#: Name -> text of the file, text before, text after.
EDITS: dict[str, tuple[str, str, str]] = {
    **{name: (STORES, *edit) for name, edit in HARMLESS.items()},
    **{name: (STORES, *HARMFUL[name][:2]) for name in ("EFA switched on", "smaller", "throughput", "bucket name")},
    "another range": (STORES, *HARMFUL["another range"][:2]),
    "another bucket for a directory": (STORES, *HARMFUL["another bucket for a directory"][:2]),
    "EFA of a fleet switched off": (
        TRAINING,
        "nodes: 4, capacity: spot",
        "nodes: 4, capacity: spot, efa: false",
    ),
    "EFA said that is there anyway": (
        TRAINING,
        "nodes: 4, capacity: spot",
        "nodes: 4, capacity: spot, efa: true",
    ),
    "no placement group": (TRAINING, "nodes: 4, capacity: spot", "nodes: 4, capacity: spot, placement: none"),
    "another fabric": (TRAINING, "nodes: 2, capacity: spot", "nodes: 2, capacity: spot, fabric: own"),
    "on demand": (TRAINING, "nodes: 4, capacity: spot", "nodes: 4"),
    "updates that roll": (TRAINING, "nodes: 4, capacity: spot", "nodes: 4, capacity: spot, update: rolling"),
    "a variable": (TRAINING, "nodes: 4, capacity: spot", "nodes: 4, capacity: spot, environment: { A: b }"),
    "fleet tags": (TRAINING, "nodes: 4, capacity: spot", "nodes: 4, capacity: spot, tags: { team: a }"),
    "watch": (TRAINING, "nodes: 4, capacity: spot", "nodes: 4, capacity: spot, watch: { mode: dry-run }"),
    "evidence": (
        TRAINING,
        "nodes: 4, capacity: spot",
        "nodes: 4, capacity: spot, evidence_bucket: my-records",
    ),
    "another mount point": (TRAINING, "mounts: { /fsx: corpus }", "mounts: { /data: corpus }"),
    "no checkpoints": (TRAINING, ", checkpoints: checkpoints }", " }"),
    "checkpoints that are only read": (
        TRAINING,
        "checkpoints: checkpoints }",
        "checkpoints: checkpoints, checkpoints_read_only: true }",
    ),
    "checkpoints in another folder": (
        TRAINING,
        "checkpoints: checkpoints }",
        "checkpoints: checkpoints, checkpoint_prefix: shared }",
    ),
    "a mount that is only read": (
        TRAINING,
        "mounts: { /fsx: corpus }",
        "mounts: { /fsx: corpus }, read_only_mounts: [/fsx]",
    ),
    "a text that only looks like a secret": (
        TRAINING,
        "nodes: 4, capacity: spot",
        "nodes: 4, capacity: spot, not_secret: [STORAGE_KEY]",
    ),
    "more nodes than EFA connections": (TRAINING, "nodes: 4, capacity: spot", "nodes: 200, capacity: spot"),
    "a range of nodes": (
        TRAINING,
        "nodes: 2, mounts: { /fsx: corpus }",
        "min_nodes: 0, max_nodes: 2, mounts: { /fsx: corpus }",
    ),
    "Ray on its nodes": (TRAINING, "nodes: 4, capacity: spot", "nodes: 4, capacity: spot, ray: {}"),
    "another head of Ray on nodes that roll": (
        TRAINING.replace("nodes: 4, capacity: spot", "nodes: 4, capacity: spot, update: rolling, ray: {}"),
        "ray: {}",
        "ray: { head: ray.lab.internal }",
    ),
    "users with the role of the node": (
        TRAINING,
        "nodes: 4, capacity: spot",
        "nodes: 4, capacity: spot, metadata_users: [ubuntu]",
    ),
    "no scratch": (TRAINING, "nodes: 4, capacity: spot", "nodes: 4, capacity: spot, scratch: false"),
    "an image": (
        TRAINING,
        "nodes: 4, capacity: spot",
        "nodes: 4, capacity: spot, image: { os: ubuntu-24.04 }",
    ),
    "an image with PyTorch": (
        TRAINING,
        "nodes: 4, capacity: spot",
        "nodes: 4, capacity: spot, image: { os: al2023, framework: pytorch }",
    ),
    "closed network": (SMALL, "us-east-1a }", "us-east-1a, egress: closed }"),
    "MIG before the fabric manager": (
        STORES,
        'mig: "3g.20gb,4g.20gb"',
        'mig: "3g.20gb,4g.20gb", fabric_manager_order: before',
    ),
    "an order without MIG": (
        TRAINING,
        "nodes: 4, capacity: spot",
        "nodes: 4, capacity: spot, fabric_manager_order: before",
    ),
    "more IP bandwidth": (
        TRAINING,
        "nodes: 4, capacity: spot",
        "nodes: 4, capacity: spot, interface_policy: maximum-ena-bandwidth",
    ),
    "a script": (SMALL, "nodes: 2 }", f"nodes: 2, user_data: '{_SCRIPT.name}' }}"),
    "no alarms": (SMALL, "nodes: 2 }", "nodes: 2, alarms: { enabled: false } }"),
    "alarms by mail": (SMALL, "nodes: 2 }", "nodes: 2, alarms: { emails: [a@example.org] } }"),
    "an alarm that Trainium does not have": (SMALL, "nodes: 2 }", "nodes: 2, alarms: { idle_minutes: 30 } }"),
    "alarms later": (SMALL, "nodes: 2 }", "nodes: 2, alarms: { abandoned_launches_per_node: 9 } }"),
    "idle alarm later": (
        TRAINING,
        "nodes: 4, capacity: spot",
        "nodes: 4, capacity: spot, alarms: { idle_minutes: 30 }",
    ),
    "launch loops go on": (SMALL, "nodes: 2 }", "nodes: 2, alarms: { suspends_launching: false } }"),
    "no inspection": (SMALL, "nodes: 2 }", "nodes: 2, alarms: { inspection_minutes: 0 } }"),
    "inspection without a stop": (
        SMALL.replace("nodes: 2 }", "nodes: 2, alarms: { suspends_launching: false } }", 1),
        "suspends_launching: false }",
        "suspends_launching: false, inspection_minutes: 30 }",
    ),
    "into an existing network": (
        SMALL,
        "us-east-1a }",
        "us-east-1a, vpc_id: vpc-0123456789abcdef0, subnet_ids: [subnet-0123456789abcdef0] }",
    ),
    "no flow logs": (SMALL, "us-east-1a }", "us-east-1a, flow_logs: false }"),
    "larger fleet subnet": (SMALL, "us-east-1a }", "us-east-1a, fleet_subnet_prefix: 17 }"),
    "named zones": (
        SMALL,
        "us-east-1a }",
        "us-east-1a, control_availability_zones: [us-east-1a, us-east-1b] }",
    ),
    "later end of the block": (BLOCK, "2026-12-15T11:30Z", "2026-12-22T11:30Z"),
    "another block": (BLOCK, "cr-0123456789abcdef0", "cr-0fedcba9876543210"),
    "from a block to a reservation": (BLOCK, _BLOCK, "{ reservation: cr-0fedcba9876543210 }"),
    "from a block to spot": (BLOCK, _BLOCK, "spot"),
    "another type on a block": (BLOCK, "p5.48xlarge", "p5en.48xlarge"),
    "fewer nodes on a block": (
        BLOCK,
        "nodes: 4\n      capacity: { capacity_block",
        "nodes: 2\n      capacity: { capacity_block",
    ),
    "a second block": (BLOCK, _BLOCK, _BLOCKS),
    "later end of the second block": (TWO_BLOCKS, "2026-12-29T11:30Z", "2027-01-05T11:30Z"),
    "a block of two removed": (
        TWO_BLOCKS,
        _BLOCKS,
        f"{{ capacity_blocks: [{{ capacity_block: {_SECOND}, nodes: 4 }}] }}",
    ),
    "fewer nodes on one of two blocks": (TWO_BLOCKS, "nodes: 4 }", "nodes: 3 }"),
    "an end of the reservation": (
        RESERVED,
        "{ reservation: cr-0123456789abcdef0 }",
        "{ reservation: cr-0123456789abcdef0, ends_at: 2026-12-15T11:30Z }",
    ),
    "an end of the fleet": (
        TRAINING,
        "nodes: 2, capacity: spot",
        "nodes: 2, capacity: { spot: { ends_at: 2026-12-15T11:30Z } }",
    ),
    "more reserved nodes": (BLOCK, "nodes: 4\n      capacity: { new", "nodes: 6\n      capacity: { new"),
    "another reserved type": (BLOCK, "p4d.24xlarge", "p4de.24xlarge"),
    "later end of the reservation": (BLOCK, "2027-01-31", "2027-02-28"),
    "reservation without EFA": (BLOCK, "fabric: second", "efa: false"),
    "root volume": (BLOCK, "size_gib: 300", "size_gib: 400"),
    "root volume with a key": (BLOCK, "size_gib: 300", f"size_gib: 300, encryption_key_arn: '{_KEY}'"),
    "root volume of servers with a key": (
        BLOCK,
        _CHAT,
        f"{_CHAT}      root_volume: {{ encryption_key_arn: '{_KEY}' }}\n",
    ),
    "reservation given up": (BLOCK, "{ new_reservation: { end_date: 2027-01-31T00:00Z } }", "on_demand"),
    "another zone": (BLOCK, "availability_zone: us-east-1a,", "availability_zone: us-east-1b,"),
    "a third zone": (BLOCK, "us-east-1b]", "us-east-1b, us-east-1c]"),
    "other cluster tags": (BLOCK, "project: llama", "project: moe"),
    "no scaling": (BLOCK, "      requests_per_minute_per_node: 60\n", ""),
    "another rate": (BLOCK, "per_node: 60", "per_node: 90"),
    "another client": (BLOCK, "10.0.0.0/16", "10.1.0.0/16"),
    "TLS": (
        BLOCK,
        "plain_http: true",
        'certificate_arn: "arn:aws:acm:us-east-1:123456789012:certificate/0"',
    ),
    "longer drain": (BLOCK, "plain_http: true", "plain_http: true, drain_timeout_seconds: 600"),
    "longer silence": (BLOCK, "plain_http: true", "plain_http: true, idle_timeout_seconds: 900"),
    "log bucket": (BLOCK, "plain_http: true", "plain_http: true, access_log_bucket: my-logs"),
    "longer boot": (BLOCK, _CHAT, f"{_CHAT}      ready_timeout_seconds: 3600\n"),
    "groups of servers": (BLOCK, _CHAT, f"{_CHAT}      devices_per_server: 2\n"),
    "more servers up": (BLOCK, _CHAT, f"{_CHAT}      min_servers_per_node: 4\n"),
    "more nodes than can be spread": (BLOCK, "max_nodes: 4", "max_nodes: 40"),
    "weights": (BLOCK, 'v0.11.0" }', 'v0.11.0", weights: { s3_uri: "s3://my-models/a" } }'),
    "cache": (BLOCK, 'v0.11.0" }', 'v0.11.0", cache_path: /scratch/cache }'),
    "fleet renamed": (BLOCK, "    trainers:", "    workers:"),
    "cluster renamed": (BLOCK, "name: lab", "name: lab2"),
    "another subnet": (EXISTING, "subnet-0123456789abcdef0", "subnet-0123456789abcdefa"),
    "another service subnet": (EXISTING, "subnet-0123456789abcdef2", "subnet-0123456789abcdefb"),
    "another VPC": (EXISTING, "vpc-0123456789abcdef0", "vpc-0fedcba9876543210"),
    "internet-facing": (EXISTING, "clients: [", "internet_facing: true, clients: ["),
    "another file system": (EXISTING, "fs-0123456789abcdef0", "fs-0fedcba9876543210"),
    "another group of its servers": (EXISTING, "sg-0123456789abcdef0", "sg-0fedcba9876543210"),
    "service range of an existing cluster": (
        ON_EKS["small"],
        '    kubernetes_version: "1.34"\n',
        '    kubernetes_version: "1.34"\n    service_cidr: 10.100.0.0/16\n',
    ),
    "group of the nodes of an existing cluster": (
        ON_EKS["small"],
        '    kubernetes_version: "1.34"\n',
        '    kubernetes_version: "1.34"\n    node_security_group_ids: [sg-0123456789abcdef8]\n',
    ),
    "role of the CNI of an existing cluster": (
        ON_EKS["small"],
        '    kubernetes_version: "1.34"\n',
        '    kubernetes_version: "1.34"\n    cni_from_node_role: true\n',
    ),
    "mute of alarms": (BLOCK, _CHAT, f"{_CHAT}      alarms: {{ {_MUTE} }}\n"),
    "another mute": (BLOCK.replace(_CHAT, f"{_CHAT}      alarms: {{ {_MUTE} }}\n"), "minutes: 240", "minutes: 60"),
    "monitoring": (TRAINING, "data:\n", "monitoring: { dashboard: true }\ndata:\n"),
    "no monitoring any more": (MONITORED, MONITORED.removeprefix(TRAINING), ""),
    "no dashboard any more": (MONITORED, "  dashboard: true\n", ""),
    "no budget any more": (MONITORED, MONITORED.rpartition("  budget")[2], ": null\n"),
    "another budget": (MONITORED, "50000", "60000"),
    "another address": (MONITORED, "[finance@", "[ops@example.org, finance@"),
    "a topic for addresses": (MONITORED, _MAILS, _TOPIC),
    "another threshold": (MONITORED, _MAILS, f"{_MAILS}, actual_percent: [50]"),
    "the threshold that is there anyway": (MONITORED, _MAILS, f"{_MAILS}, forecast_percent: [100]"),
    "a brake": (MONITORED, _MAILS, f"{_MAILS}, brake: {{ fleets: [second] }}"),
    "another type on the dashboard": (MONITORED, "m8g.4xlarge", "m8g.8xlarge"),
    "a fleet less on the dashboard": (
        MONITORED,
        "    second: { instance_type: p5.48xlarge, nodes: 2, capacity: spot }\n",
        "",
    ),
    "another number on the dashboard": (MONITORED, "nodes: 4,", "nodes: 6,"),
    "metrics for Prometheus": (TRAINING, "data:\n", "monitoring: { metrics: {} }\ndata:\n"),
    "no metrics for Prometheus any more": (SCRAPED, SCRAPED.removeprefix(TRAINING), ""),
    "metrics to CloudWatch": (SCRAPED, "destination: workspace, ", ""),
    "a retention": (SCRAPED, "exporters:", "retention_days: 400, exporters:"),
    "a server without metrics": (
        BLOCK + "monitoring: { metrics: {} }\n",
        "vllm/vllm-openai:v0.11.0",
        "registry.example/triton:1",
    ),
    "Grafana": (SCRAPED, "exporters: [dcgm] }", "exporters: [dcgm] }\n  grafana: { authentication: [saml] }"),
    "Grafana alone": (TRAINING, "data:\n", "monitoring: { grafana: { authentication: [saml] } }\ndata:\n"),
    "another way into Grafana": (
        TRAINING + "monitoring: { grafana: { authentication: [saml] } }\n",
        "[saml]",
        "[identity-center]",
    ),
    "a zone that was left": (SCRAPED, "exporters:", "zone_id: Z0123456789ABCDEFGHIJ, exporters:"),
    "another exporter": (SCRAPED, "[dcgm]", "[dcgm, node]"),
    "exporters that nodes install": (SCRAPED, "[dcgm]", "[dcgm], install_exporters: true"),
    "another exporter that nodes install": (INSTALLED, "[dcgm]", "[dcgm, node]"),
    "a fleet less to scrape": (
        SCRAPED,
        "    second: { instance_type: p5.48xlarge, nodes: 2, capacity: spot }\n",
        "",
    ),
    **_EDITS_OF_EKS,
    **EDITS_OF_BATCH,
    **EDITS_OF_PCS,
    **EDITS_OF_PARALLELCLUSTER,
    **EDITS_OF_HYPERPOD,
}


def sides(name: str) -> tuple[str, str]:
    """The files before and after an edit."""
    text, before, after = EDITS[name]
    assert text.count(before) >= 1, f"{name}: {before}"
    return text, text.replace(before, after, 1)
