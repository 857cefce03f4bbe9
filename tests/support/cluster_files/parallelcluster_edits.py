"""Clusters of AWS ParallelCluster, and edits of their files."""

from __future__ import annotations

PARALLELCLUSTER = """\
version: 1
name: lab
region: us-east-1
orchestrator: parallelcluster
network: { availability_zone: us-east-1a, control_availability_zones: [us-east-1a, us-east-1b] }
tags: { project: a }
data:
  home:
    openzfs: { storage_capacity_gib: 1024 }
  saves:
    checkpoints: {}
parallelcluster:
  login: { nodes: 1 }
  queues: { work: { fleets: [trainers, batch] } }
training:
  fleets:
    trainers:
      instance_type: p5.48xlarge
      nodes: 4
      capacity: spot
      mounts: { /home: home }
      checkpoints: saves
    reserved:
      instance_type: p4d.24xlarge
      nodes: 2
      capacity: { new_reservation: { end_date: 2027-01-31T00:00Z } }
      fabric: reserved
    batch: { instance_type: g6.12xlarge, min_nodes: 0, max_nodes: 8, capacity: spot }
"""
_PLACED = """\
version: 1
name: lab
region: us-east-1
orchestrator: parallelcluster
network:
  vpc_id: vpc-0123456789abcdef0
  subnet_ids: [subnet-0123456789abcdef0]
  availability_zone: us-east-1a
training:
  fleets:
    batch: { instance_type: g6.12xlarge, min_nodes: 0, max_nodes: 8, capacity: spot }
"""
_RESOURCE = "  custom_resource: { role_arn: 'arn:aws:iam::111122223333:role/operators' }\n"
DEPLOYED = PARALLELCLUSTER.replace("  login: {", f"{_RESOURCE}  login: {{")
_BATCH = "    batch: { instance_type: g6.12xlarge, min_nodes: 0, max_nodes: 8, capacity: spot }\n"

#: Name -> text of the file, text before, text after.
EDITS_OF_PARALLELCLUSTER: dict[str, tuple[str, str, str]] = {
    "ParallelCluster: more nodes": (PARALLELCLUSTER, "nodes: 4", "nodes: 6"),
    "ParallelCluster: a larger reservation": (PARALLELCLUSTER, "nodes: 2", "nodes: 3"),
    "ParallelCluster: another type": (PARALLELCLUSTER, "g6.12xlarge", "g6.24xlarge"),
    "ParallelCluster: a variable": (PARALLELCLUSTER, "max_nodes: 8,", "max_nodes: 8, environment: { A: b },"),
    "ParallelCluster: alarms, which it has not": (
        PARALLELCLUSTER,
        "max_nodes: 8,",
        "max_nodes: 8, alarms: { idle: false },",
    ),
    "ParallelCluster: another head node": (
        PARALLELCLUSTER,
        "  login: {",
        "  head_node: { instance_type: m7i.4xlarge }\n  login: {",
    ),
    "ParallelCluster: more login nodes": (PARALLELCLUSTER, "login: { nodes: 1 }", "login: { nodes: 2 }"),
    "ParallelCluster: another partition": (PARALLELCLUSTER, "[trainers, batch]", "[trainers, batch, reserved]"),
    "ParallelCluster: another mount": (
        PARALLELCLUSTER,
        "capacity: spot }",
        "capacity: spot, mounts: { /home: home } }",
    ),
    "ParallelCluster: no checkpoints": (PARALLELCLUSTER, "      checkpoints: saves\n", ""),
    "ParallelCluster: checkpoints that are only read": (
        PARALLELCLUSTER,
        "      checkpoints: saves\n",
        "      checkpoints: saves\n      checkpoints_read_only: true\n",
    ),
    "ParallelCluster: a fleet less": (
        PARALLELCLUSTER.replace("  queues: { work: { fleets: [trainers, batch] } }\n", ""),
        _BATCH,
        "",
    ),
    "ParallelCluster: other tags": (PARALLELCLUSTER, "project: a", "project: b"),
    "ParallelCluster: another VPC": (_PLACED, "vpc-0123456789abcdef0", "vpc-0123456789abcdef1"),
    "ParallelCluster: another subnet": (_PLACED, "subnet-0123456789abcdef0", "subnet-0123456789abcdef1"),
    "ParallelCluster: made by the deployment": (PARALLELCLUSTER, "  login: {", f"{_RESOURCE}  login: {{"),
    "ParallelCluster: made by pcluster again": (DEPLOYED, _RESOURCE, ""),
    "ParallelCluster: made by pcluster again, without the old cluster": (
        DEPLOYED.replace("role/operators' }", "role/operators', delete_with_stack: true }"),
        _RESOURCE.replace("' }", "', delete_with_stack: true }"),
        "",
    ),
    "ParallelCluster: a deployed cluster of more nodes": (DEPLOYED, "nodes: 4", "nodes: 6"),
    "ParallelCluster: a variable of a deployed cluster": (
        DEPLOYED,
        "max_nodes: 8,",
        "max_nodes: 8, environment: { A: b },",
    ),
    "ParallelCluster: a deployed cluster that goes with its stack": (
        DEPLOYED,
        "role/operators' }",
        "role/operators', delete_with_stack: true }",
    ),
    "ParallelCluster: another role of the provider": (DEPLOYED, "role/operators", "role/admins"),
    "ParallelCluster: another version of the provider": (
        DEPLOYED,
        "role/operators'",
        "role/operators', version: 3.15.0",
    ),
    "ParallelCluster: other tags of a deployed cluster": (DEPLOYED, "project: a", "project: b"),
    "from EC2 to ParallelCluster": (_PLACED, "orchestrator: parallelcluster", "orchestrator: ec2"),
    "from ParallelCluster to PCS": (_PLACED, "orchestrator: parallelcluster", "orchestrator: pcs"),
}
