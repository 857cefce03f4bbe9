"""The settings that the rules call fatal, given to a real slurmctld: it ends with them, and starts without the fault."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping

import pytest

from cdk_gpu_clusters.node.slurm_settings import cluster_settings
from cdk_gpu_clusters.rules.pcs_slurm_conf import check_controller_starts
from slurmbox.box import Box
from slurmbox.cluster import Cluster

_NEWEST = os.environ.get("SLURM_TIER") == "newest"
_SECONDS = 30.0
# Another controller beside that of the cluster.
_OF_ANOTHER = {
    "SlurmctldPort": "16817",
    "StateSaveLocation": "/var/spool/slurm/another",
    "SlurmctldPidFile": "/run/another.pid",
    "SlurmctldLogFile": "/dev/null",
}
_STARTED = "Running as primary controller"
_QOS, _PARTITIONS = {"PreemptType": "preempt/qos"}, {"PreemptType": "preempt/partition_prio"}
_INCOMPATIBLE = "PreemptType and PreemptMode values incompatible"
_GPUS = {"AccountingStorageTRES": "gres/gpu"}

# Wrong settings, right ones beside them, and what slurmctld says about the wrong ones.
Case = tuple[dict[str, str], dict[str, str], str]
CASES: list[Case] = [
    ({"PrologFlags": "Alloc, Contain"}, {"PrologFlags": "Alloc,Contain"}, "Parse error"),
    ({"PrologFlags": "Alloc"}, {"PrologFlags": "Alloc,Contain"}, "STEP_MGR not supported without PrologFlags=contain"),
    ({"PrologFlags": "Alloc,NoHold"}, {"PrologFlags": "RunInJob"}, "STEP_MGR not supported without PrologFlags=contain"),
    ({"PrologFlags": "Alloc,Contain,NoHold"}, {"PrologFlags": "contain"}, "NoHold cannot be combined with Contain"),
    ({"LaunchParameters": "enable_nss_slurm,disable_send_gids"}, {"LaunchParameters": "enable_nss_slurm"},
     "enable_nss_slurm and disable_send_gids are mutually exclusive"),
    ({"FirstJobId": "0"}, {"FirstJobId": "1"}, "FirstJobId cannot be zero"),
    ({"PreemptMode": "REQUEUE"}, {"PreemptMode": "REQUEUE", **_QOS}, _INCOMPATIBLE),
    ({"PreemptMode": "WITHIN"}, {"PreemptMode": "GANG"}, _INCOMPATIBLE),
    (_QOS, {"PreemptMode": "CANCEL", **_QOS}, _INCOMPATIBLE),
    ({"PreemptMode": "OFF", **_PARTITIONS}, {"PreemptMode": "OFF"}, _INCOMPATIBLE),
    ({"PreemptMode": "GANG", **_PARTITIONS}, {"PreemptMode": "REQUEUE,GANG", **_PARTITIONS}, _INCOMPATIBLE),
    ({"PreemptMode": "WITHIN", **_QOS}, {"PreemptMode": "WITHIN,REQUEUE", **_QOS}, _INCOMPATIBLE),
    ({"PreemptMode": "SUSPEND", **_QOS}, {"PreemptMode": "SUSPEND,GANG", **_QOS}, "PreemptMode=SUSPEND requires GANG"),
    ({"SchedulerParameters": "max_script_size=536870913"}, {"SchedulerParameters": "max_script_size=536870912"},
     "max_script_size cannot exceed 536870912"),
    ({"SchedulerParameters": "max_submit_line_size=2097153"}, {"SchedulerParameters": "max_submit_line_size=2097152"},
     "max_submit_line_size cannot exceed 2097152"),
    ({"AccountingStorageTRES": "gpu"}, _GPUS, "Unknown tres type 'gpu'"),
    ({"AccountingStorageTRES": "gpu"}, {"AccountingStorageTRES": "fs/disk"}, "Unknown tres type 'gpu'"),
    ({"AccountingStorageTRES": "gres"}, {"AccountingStorageTRES": "cpu,gres/gpu"}, "Unknown tres type 'gres'"),
]  # fmt: skip
# Older versions know no such state, and AWS PCS takes it from 25.11 on.
_HEALTH = {"HealthCheckProgram": "/bin/true", "HealthCheckInterval": "300"}
NEWER: list[Case] = [
    ({"HealthCheckNodeState": "START_ONLY,IDLE", **_HEALTH}, {"HealthCheckNodeState": "START_ONLY", **_HEALTH},
     "HealthCheckNodeState=START_ONLY cannot be combined"),
]  # fmt: skip


@pytest.fixture(scope="module")
def cluster(box: Box) -> Iterator[Cluster]:
    """A cluster with accounting, whose own controller has the library's settings of the newest version."""
    with Cluster(box, {"gpu-1": "CPUs=2 RealMemory=1000"}, cluster_settings(slurm_version="26.05")) as made:
        made.eventually(lambda: made.node("gpu-1")["State"] == "IDLE")
        yield made


def controller(cluster: Cluster, settings: Mapping[str, str]) -> str:
    """What a controller with these settings says before it has started, or has ended."""
    box = cluster.box
    lines = box.path("/etc/slurm/slurm.conf").read_text().splitlines()
    changed = {**cluster_settings(), **settings, **_OF_ANOTHER}
    kept = [line for line in lines if line.partition("=")[0] not in changed]
    given = [f"{name}={value}" for name, value in changed.items()]
    box.write("/etc/slurm/another.conf", "\n".join([*given, *kept, ""]))
    box.run("rm", "--recursive", "--force", "/var/spool/slurm/another", "/run/another.log")
    box.path("/var/spool/slurm/another").mkdir()
    log = box.write("/run/another.log", "")
    daemon = box.start("slurmctld", "-D", "-f", "/etc/slurm/another.conf", log=log)
    try:
        end = time.monotonic() + _SECONDS
        while daemon.poll() is None and _STARTED not in log.read_text(errors="replace"):
            assert time.monotonic() < end, log.read_text(errors="replace")
            time.sleep(0.05)
    finally:
        daemon.kill()
        daemon.wait()
    return log.read_text(errors="replace")


def rules(settings: Mapping[str, str]) -> list[str]:
    return [one.id for one in check_controller_starts(settings, accounting=True)]


@pytest.mark.parametrize(("wrong", "right", "message"), [*CASES, *(NEWER if _NEWEST else [])], ids=str)
def test_the_controller_ends_with_what_a_rule_finds_and_starts_with_the_rest(
    cluster: Cluster, wrong: dict[str, str], right: dict[str, str], message: str
) -> None:
    assert len(rules({**cluster_settings(), **wrong})) == 1
    said = controller(cluster, wrong)
    assert message in said
    assert _STARTED not in said
    assert rules({**cluster_settings(), **right}) == []
    assert _STARTED in controller(cluster, right)


def test_gpus_in_the_accounting_need_a_database(cluster: Cluster) -> None:
    none = {"AccountingStorageType": "accounting_storage/none"}
    assert [one.id for one in check_controller_starts(_GPUS, accounting=False)] == ["GPU-PCS-040"]
    assert "slurmdbd is required to run with TRES gres/gpu" in controller(cluster, {**_GPUS, **none})
    assert list(check_controller_starts({}, accounting=False)) == []
    assert _STARTED in controller(cluster, none)


@pytest.mark.parametrize("version", ["24.11", "25.05", "25.11", "26.05"])
def test_the_controller_starts_with_the_settings_of_every_version(cluster: Cluster, version: str) -> None:
    settings = cluster_settings(slurm_version=version)
    assert rules(settings) == []
    assert _STARTED in controller(cluster, settings)
