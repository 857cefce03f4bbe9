"""Every invariant sees its fault, planted in a rule or a construct, and no other invariant takes it for its own."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import matrix.invariant
from matrix.cluster_files import ClusterFile
from matrix.clusters import judge
from matrix.invariant import invariants
from matrix.seeded_faults import FAULTS, Data, Fault

LUSTRE = {"lustre": {"storage_capacity_gib": 1200, "throughput_mb_per_s_per_tib": 125}}


ON_EKS = {
    "orchestrator": "eks",
    "eks": {
        "existing": {
            "cluster_name": "research",
            "cluster_security_group_id": "sg-0c105e0123456789a",
            "kubernetes_version": "1.35",
        }
    },
}


ON_PCS = {
    "orchestrator": "pcs",
    "pcs": {
        "existing": {
            "cluster_id": "pcs_abc1234567",
            "slurm_version": "26.05",
            "security_group_ids": ["sg-0c105e0123456789a"],
        },
        "login": {"nodes": 0},
        "queues": {"work": {"fleets": ["a"]}},
    },
}


def cluster(fleet: Data, orchestrator: str) -> ClusterFile:
    """A cluster of one fleet in an existing network."""
    network = {
        "vpc_id": "vpc-0123456789abcdef0",
        "subnet_ids": ["subnet-0123456789abcdef0"],
        "availability_zone": "us-east-1a",
    }
    data: Data = {
        "version": 1,
        "name": "lab",
        "region": "us-east-1",
        "tags": {"team": "vision"},
        "network": network,
    }
    stores = {"data": {"corpus": LUSTRE}} if "mounts" in fleet else {}
    joined: Data = {"eks": ON_EKS, "pcs": ON_PCS}.get(orchestrator, {})
    return ClusterFile({**data, **joined, **stores, "training": {"fleets": {"a": fleet}}})


def broken(fleet: Data, orchestrator: str) -> set[str]:
    """The invariants that the fleet's templates break."""
    judgement = judge(cluster(fleet, orchestrator))
    assert judgement.refusals == ()
    return {violation.id for _, violation in judgement.violations}


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.invariant for fault in FAULTS])
def test_a_planted_fault_breaks_its_invariant_alone(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    fault.plant(monkeypatch)
    assert broken(fault.fleet, fault.orchestrator) == {fault.invariant}


SOUND = {(fault.orchestrator, str(fault.fleet)): fault for fault in FAULTS if not fault.invariant.startswith("mig-")}


@pytest.mark.parametrize("fault", SOUND.values(), ids=[f"{name}{index}" for index, (name, _) in enumerate(SOUND)])
def test_without_a_fault_nothing_is_broken(fault: Fault) -> None:
    assert broken(fault.fleet, fault.orchestrator) == set()


def test_invariants_know_nothing_of_the_library() -> None:
    """They are read from the published rules; what they import is their own."""
    folder = Path(matrix.invariant.__file__).parent
    readers = ["scenario", "cloud", "hardware", "invariant", "nodes", "published"]
    files = [*folder.glob("invariants_*.py"), *(folder / f"{name}.py" for name in readers)]
    assert len(files) > len(readers)
    pattern = r"^\s*(from|import) (cdk_gpu_clusters|aws_cdk)"
    assert [file.name for file in files if re.search(pattern, file.read_text(), re.MULTILINE)] == []


def test_every_invariant_has_its_fault(tally: Callable[[str], None]) -> None:
    assert sorted(fault.invariant for fault in FAULTS) == sorted(invariants())
    tally(f"planted faults: {len(FAULTS)}, one for each invariant")
