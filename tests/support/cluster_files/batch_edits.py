"""Fleets on AWS Batch, and edits of their file."""

from __future__ import annotations

_BLOCK = "{ capacity_block: cr-0123456789abcdef0, starts_at: 2026-12-01T11:30Z, ends_at: 2026-12-15T11:30Z }"

BATCH = f"""\
version: 1
name: lab
region: us-east-1
orchestrator: batch
network: {{ availability_zone: us-east-1a, control_availability_zones: [us-east-1a, us-east-1b] }}
data:
  home:
    openzfs: {{ storage_capacity_gib: 1024 }}
  saved:
    checkpoints: {{ expire_after_days: 30 }}
batch:
  jobs:
    trainers: {{ image: 'registry.example.com/train:1', command: [./train], timeout_minutes: 600 }}
training:
  fleets:
    trainers:
      instance_type: p5.48xlarge
      nodes: 4
      capacity: {_BLOCK}
      checkpoints: saved
      mounts: {{ /home: home }}
    reserved:
      instance_type: p4d.24xlarge
      nodes: 2
      capacity: {{ new_reservation: {{ end_date: 2027-01-31T00:00Z }} }}
      efa: false
    elastic: {{ instance_type: g6.12xlarge, min_nodes: 0, max_nodes: 8 }}
    fixed: {{ instance_type: g6.xlarge, nodes: 1 }}
"""
_BATCH = "orchestrator: batch\n"
_JOBS = """\
batch:
  jobs:
    trainers: { image: 'registry.example.com/train:1', command: [./train], timeout_minutes: 600 }
"""
#: The same without jobs of its own.
_PLAIN = BATCH.replace(_JOBS, "")
_ELASTIC = "min_nodes: 0, max_nodes: 8"


def _elastic(value: str) -> tuple[str, str, str]:
    return BATCH, _ELASTIC, f"{_ELASTIC}, {value}"


def _batch(value: str) -> tuple[str, str, str]:
    return BATCH, "  jobs:", f"  {value}\n  jobs:"


EDITS_OF_BATCH = {
    "Batch: from Slurm": (_PLAIN.replace(_BATCH, "orchestrator: pcs\n"), "orchestrator: pcs\n", _BATCH),
    "Batch: from EKS": (_PLAIN.replace(_BATCH, "orchestrator: eks\n"), "orchestrator: eks\n", _BATCH),
    "Batch: to EC2": (_PLAIN, _BATCH, "orchestrator: ec2\n"),
    "Batch: fewer nodes of a block": (BATCH, "nodes: 4", "nodes: 2"),
    "Batch: more elastic nodes": (BATCH, "max_nodes: 8", "max_nodes: 16"),
    "Batch: another block": (BATCH, "cr-0123456789abcdef0", "cr-0fedcba9876543210"),
    "Batch: a later end of the block": (BATCH, "2026-12-15T", "2026-12-22T"),
    "Batch: from a block to on demand": (BATCH, _BLOCK, "on_demand"),
    "Batch: from on demand to a block": (BATCH.replace(_BLOCK, "on_demand"), "on_demand", _BLOCK),
    "Batch: a reservation given up": (BATCH, "{ new_reservation: { end_date: 2027-01-31T00:00Z } }", "on_demand"),
    "Batch: another type": (BATCH, "g6.12xlarge", "g6.24xlarge"),
    "Batch: another type on a block": (BATCH, "p5.48xlarge", "p5en.48xlarge"),
    "Batch: another image of the job": (BATCH, "train:1", "train:2"),
    "Batch: another command": (BATCH, "./train]", "./train, --again]"),
    "Batch: nodes of the job": (BATCH, "timeout_minutes: 600", "timeout_minutes: 600, nodes: 2"),
    "Batch: no job of its own": (
        BATCH,
        "    trainers: { image: 'registry.example.com/train:1', command: [./train], timeout_minutes: 600 }\n",
        "    elastic: { attempts: 1 }\n",
    ),
    "Batch: a shorter wait": _batch("blocked_minutes: 60"),
    "Batch: a shorter update": _batch("job_minutes_on_update: 60"),
    "Batch: nodes stay longer": _batch("scale_down_idle_minutes: 60"),
    "Batch: an image": _elastic("image: { id: ami-0123456789abcdef0 }"),
    "Batch: a variable": _elastic("environment: { A: b }"),
    "Batch: fleet tags": _elastic("tags: { team: a }"),
    "Batch: a script": _elastic("user_data: dev-tools.sh"),
    "Batch: no scratch": _elastic("scratch: false"),
    "Batch: watch": _elastic("watch: { mode: dry-run }"),
    "Batch: root volume": _elastic("root_volume: { size_gib: 400 }"),
    "Batch: no alarms": _elastic("alarms: { enabled: false }"),
    "Batch: checkpoints": _elastic("checkpoints: saved"),
    "Batch: homes": _elastic("mounts: { /home: home }"),
    "Batch: placement": _elastic("placement: cluster"),
    "Batch: a folder of checkpoints": (
        BATCH,
        "checkpoints: saved\n",
        "checkpoints: saved\n      checkpoint_prefix: llama\n",
    ),
    "Batch: EFA switched off": (BATCH, "      checkpoints: saved\n", "      checkpoints: saved\n      efa: false\n"),
    "Batch: another fabric": (BATCH, "      checkpoints: saved\n", "      checkpoints: saved\n      fabric: own\n"),
    "Batch: tags of all": (f"{BATCH}tags: {{ a: b }}\n", "a: b", "a: c"),
    "Batch: a fleet renamed": (BATCH, "elastic:", "spare:"),
}
