"""Slurm clusters of AWS PCS, and edits of their files."""

from __future__ import annotations

_BLOCK = "{ capacity_block: cr-0123456789abcdef0, starts_at: 2026-12-01T11:30Z, ends_at: 2026-12-15T11:30Z }"
_RESERVATION = "{ new_reservation: { end_date: 2027-01-31T00:00Z } }"
_GROUP = "{ reservation_group: 'arn:aws:resource-groups:us-east-1:111122223333:group/p4d' }"

_DIRECTORY = "{ uris: ['ldaps://ad.example.com'], search_base: 'dc=example,dc=com', bind_dn: 'cn=reader', password_secret: ldap }"

SLURM = f"""\
version: 1
name: lab
region: us-east-1
orchestrator: pcs
network: {{ availability_zone: us-east-1a, control_availability_zones: [us-east-1a, us-east-1b] }}
data:
  home:
    openzfs: {{ storage_capacity_gib: 1024 }}
pcs:
  size: small
  slurm_version: "25.11"
  accounting: {{ keep_days: 90 }}
  login: {{ nodes: 1, instance_type: m7i.large, mounts: {{ /home: home }} }}
training:
  fleets:
    trainers:
      instance_type: p5.48xlarge
      nodes: 4
      capacity: {_BLOCK}
      mounts: {{ /home: home }}
    reserved:
      instance_type: p4d.24xlarge
      nodes: 2
      capacity: {_RESERVATION}
      efa: false
    batch: {{ instance_type: g6.12xlarge, min_nodes: 0, max_nodes: 8, capacity: spot }}
    fixed: {{ instance_type: g6.xlarge, nodes: 1 }}
"""
_NAMED = "  queues: { work: { fleets: [trainers, batch], slurm_settings: { MaxTime: '60' } } }\n"
_LOGIN = "  login: {"
#: The same cluster with MIG slices, for which AWS PCS wants the newer version.
SLICED = SLURM.replace('"25.11"', '"26.05"').replace(
    "g6.xlarge, nodes: 1", 'p4d.24xlarge, nodes: 1, efa: false, mig: "3g.20gb,4g.20gb"'
)
#: The same cluster with a queue over several fleets.
QUEUED = SLURM.replace(_LOGIN, _NAMED + _LOGIN)
_EXISTING = """\
pcs:
  existing:
    { cluster_id: pcs_abc1234567, slurm_version: "25.11", security_group_ids: [sg-0123456789abcdef0] }
"""
#: The same cluster with homes on a file system that exists already.
_KEPT = (
    "existing_openzfs: { file_system_id: fs-0123456789abcdef0, security_group_id: sg-0123456789abcdef0, "
    "export_path: /fsx/home }"
)
KEPT = SLURM.replace("openzfs: { storage_capacity_gib: 1024 }", _KEPT)
#: Homes on EFS, of which the servers of a fleet without a fabric are reached by rules of its own.
_KEPT_EFS = "existing_efs: { file_system_id: fs-0123456789abcdef0, security_group_id: sg-0123456789abcdef0 }"
KEPT_EFS = SLURM.replace("openzfs: { storage_capacity_gib: 1024 }", _KEPT_EFS).replace(
    "instance_type: p5.48xlarge", "instance_type: p5.48xlarge\n      efa: false"
)
_HEAD = "version: 1\nname: lab\nregion: us-east-1\n"
_FLEETS = """\
training:
  fleets:
    trainers: { instance_type: p5.48xlarge, nodes: 2, capacity: spot }
"""
_JOINS = f"{_HEAD}orchestrator: pcs\nnetwork: {{ availability_zone: us-east-1a }}\n{_EXISTING}{_FLEETS}"
_PLACED = (
    f"{_HEAD}orchestrator: pcs\nnetwork:\n  vpc_id: vpc-0123456789abcdef0\n"
    f"  subnet_ids: [subnet-0123456789abcdef0]\n  availability_zone: us-east-1a\n{_FLEETS}"
)
_ZONES = f"{_HEAD}orchestrator: pcs\nnetwork: {{ availability_zone: us-east-1a }}\n{_FLEETS}"


def _cluster(key: str, value: str) -> tuple[str, str, str]:
    return SLURM, _LOGIN, f"  {key}: {value}\n{_LOGIN}"


def _batch(more: str) -> tuple[str, str, str]:
    return SLURM, "max_nodes: 8, capacity: spot", f"max_nodes: 8, capacity: spot, {more}"


#: Name -> text of the file, text before, text after.
EDITS_OF_PCS: dict[str, tuple[str, str, str]] = {
    "PCS: a larger cluster": (SLURM, "size: small", "size: medium"),
    "PCS: another version of Slurm": (SLURM, '"25.11"', '"26.05"'),
    "PCS: records that stay longer": (SLURM, "keep_days: 90", "keep_days: 180"),
    "PCS: no accounting": (SLURM, "keep_days: 90", "enabled: false"),
    "PCS: a setting": _cluster("slurm_settings", "{ SchedulerParameters: bf_continue }"),
    "PCS: the REST API": _cluster("rest_api", "true"),
    "PCS: metrics of the controller": (
        SLURM.replace('"25.11"', '"26.05"').replace(_LOGIN, f"  metrics: true\n{_LOGIN}"),
        "data:\n",
        "monitoring: { metrics: {} }\ndata:\n",
    ),
    "PCS: metrics of nodes": (SLURM, "data:\n", "monitoring: { metrics: {} }\ndata:\n"),
    "PCS: exporters on nodes": (
        SLURM.replace("data:\n", "monitoring: { metrics: { exporters: [dcgm, node] } }\ndata:\n"),
        "exporters: [dcgm, node]",
        "exporters: [dcgm, node], install_exporters: true",
    ),
    "PCS: metrics of the controller, too": (
        SLURM.replace('"25.11"', '"26.05"').replace("data:\n", "monitoring: { metrics: {} }\ndata:\n"),
        _LOGIN,
        f"  metrics: true\n{_LOGIN}",
    ),
    "PCS: metrics": (SLURM.replace('"25.11"', '"26.05"'), _LOGIN, f"  metrics: true\n{_LOGIN}"),
    "PCS: idle nodes stay longer": _cluster("scale_down_idle_minutes", "30"),
    "PCS: settings of nodes": _cluster("node_settings", "{ batch: { Weight: '5' } }"),
    "PCS: queues of several fleets": (SLURM, _LOGIN, _NAMED + _LOGIN),
    "PCS: another limit of a queue": (QUEUED, "MaxTime: '60'", "MaxTime: '120'"),
    "PCS: another fleet in a queue": (QUEUED, "[trainers, batch]", "[trainers, batch, fixed]"),
    "PCS: a queue renamed": (QUEUED, "{ work:", "{ gpu-jobs:"),
    "PCS: queues of the fleets again": (QUEUED, _NAMED, ""),
    "PCS: more login nodes": (SLURM, "login: { nodes: 1", "login: { nodes: 2"),
    "PCS: other login nodes": (SLURM, "m7i.large", "m7i.xlarge"),
    "PCS: no login nodes": (SLURM, "login: { nodes: 1", "login: { nodes: 0"),
    "PCS: SSH to login nodes": (SLURM, "login: { nodes: 1", "login: { nodes: 1, ssh_cidrs: [10.0.0.0/16]"),
    "PCS: a key of login nodes": (SLURM, "login: { nodes: 1", "login: { nodes: 1, ssh_key_name: mine"),
    "PCS: no homes on login nodes": (SLURM, ", mounts: { /home: home } }\ntraining", " }\ntraining"),
    "PCS: more nodes that come and go": (SLURM, "max_nodes: 8", "max_nodes: 12"),
    "PCS: more nodes of a fixed number": (SLURM, "g6.xlarge, nodes: 1", "g6.xlarge, nodes: 2"),
    "PCS: fewer nodes on a block": (SLURM, "nodes: 4", "nodes: 2"),
    "PCS: another block": (SLURM, "cr-0123456789abcdef0", "cr-0fedcba9876543210"),
    "PCS: later end of the block": (SLURM, "2026-12-15T11:30Z", "2026-12-22T11:30Z"),
    "PCS: from a block to spot": (SLURM, _BLOCK, "spot"),
    "PCS: more reserved nodes": (SLURM, "nodes: 2\n      capacity: { new", "nodes: 3\n      capacity: { new"),
    "PCS: an existing group of reservations": (SLURM, _RESERVATION, _GROUP),
    "PCS: an existing reservation": (SLURM, _RESERVATION, "{ reservation: cr-0fedcba9876543210 }"),
    "PCS: a reservation given up": (SLURM, _RESERVATION, "on_demand"),
    "PCS: another type": (SLURM, "g6.12xlarge", "g6.24xlarge"),
    "PCS: another type on a block": (SLURM, "p5.48xlarge", "p5en.48xlarge"),
    "PCS: other slices": (SLICED, '"3g.20gb,4g.20gb"', '"2g.10gb,2g.10gb,3g.20gb"'),
    "PCS: no slices": (SLICED, ', mig: "3g.20gb,4g.20gb"', ""),
    "PCS: an image": _batch("image: { id: ami-0123456789abcdef0, os: ubuntu-24.04 }"),
    "PCS: a variable": _batch("environment: { A: b }"),
    "PCS: fleet tags": _batch("tags: { team: a }"),
    "PCS: a script": _batch("user_data: dev-tools.sh"),
    "PCS: users with the role of the node": _batch("metadata_users: [ubuntu]"),
    "PCS: no scratch": _batch("scratch: false"),
    "PCS: users": _cluster("users", "dev-users.yaml"),
    "PCS: a directory": _cluster("directory", _DIRECTORY),
    "PCS: watch": _batch("watch: { mode: dry-run }"),
    "PCS: root volume": _batch("root_volume: { size_gib: 400 }"),
    "PCS: no alarms": _batch("alarms: { enabled: false }"),
    "PCS: alarms by mail": _batch("alarms: { emails: [a@example.org] }"),
    "PCS: homes on another fleet": _batch("mounts: { /home: home }"),
    "PCS: another existing file system of homes": (KEPT, "fs-0123456789abcdef0", "fs-0fedcba9876543210"),
    "PCS: another group of its servers": (KEPT, "sg-0123456789abcdef0", "sg-0fedcba9876543210"),
    "PCS: another directory of homes": (KEPT, "/fsx/home", "/fsx/people"),
    "PCS: homes by another name": (KEPT, "export_path:", "dns_name: homes.example.com, export_path:"),
    "PCS: another existing EFS": (KEPT_EFS, "fs-0123456789abcdef0", "fs-0fedcba9876543210"),
    "PCS: another group of an existing EFS": (KEPT_EFS, "sg-0123456789abcdef0", "sg-0fedcba9876543210"),
    "PCS: zones of an existing EFS": (KEPT_EFS, "abcdef0 }", "abcdef0, availability_zones: [us-east-1a] }"),
    "PCS: homes of an existing file system": (SLURM, "openzfs: { storage_capacity_gib: 1024 }", _KEPT),
    "PCS: on demand": (SLURM, "max_nodes: 8, capacity: spot", "max_nodes: 8"),
    "PCS: EFA switched off": (SLURM, "      mounts: { /home", "      efa: false\n      mounts: { /home"),
    "PCS: another fabric": (SLURM, "      mounts: { /home", "      fabric: own\n      mounts: { /home"),
    "PCS: tags of all": (f"{SLURM}tags: {{ a: b }}\n", "a: b", "a: c"),
    "PCS: a fleet renamed": (SLURM, "batch:", "spare:"),
    "PCS: from EKS": (_ZONES.replace("pcs", "eks"), "orchestrator: eks\n", "orchestrator: pcs\n"),
    "PCS: another existing cluster": (_JOINS, "pcs_abc1234567", "pcs_def1234567"),
    "PCS: another version of an existing cluster": (_JOINS, '"25.11"', '"26.05"'),
    "PCS: another group of an existing cluster": (_JOINS, "sg-0123456789abcdef0", "sg-0123456789abcdef1"),
    "PCS: from an existing cluster to one made here": (_JOINS, _EXISTING, ""),
    "PCS: another subnet": (_PLACED, "subnet-0123456789abcdef0", "subnet-0123456789abcdef1"),
    "PCS: closed network": (SLURM, "us-east-1b] }", "us-east-1b], egress: closed }"),
}
