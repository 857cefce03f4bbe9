"""Draining a Slurm node, with an sinfo and an scontrol that behave like those of 22.05 and 24.11."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from cdk_gpu_clusters.node.gpunode import paths
from cdk_gpu_clusters.node.gpunode.actions.orchestrator import ActionError, NotYet
from cdk_gpu_clusters.node.gpunode.actions.slurm import Slurm
from cdk_gpu_clusters.node.gpunode.checks.check import Severity
from watched_node import WatchedNode

# name|host|address|partition|state|since|reason
ROWS = """\
gpu-1|gpu-1|10.0.0.1|train*|mixed|Unknown|none
gpu-2|gpu-2|10.0.0.2|train*|idle|Unknown|none
gpu-1|gpu-1|10.0.0.1|all|mixed|Unknown|none
gpu-2|gpu-2|10.0.0.2|all|idle|Unknown|none
cpu-1|cpu-1|10.0.0.9|all|idle|Unknown|none
"""


class Cluster:
    """What sinfo says, and what scontrol was told."""

    def __init__(self, folder: Path) -> None:
        self.watched = WatchedNode(folder)
        self.said = folder / "scontrol"
        self.registered(minutes_ago=1)
        self.rows(ROWS)

    def rows(self, text: str) -> None:
        self.watched.write("sinfo", text)
        script = f'#!/bin/sh\nwhile IFS= read -r line; do echo "$line"; done <{self.watched.root}/sinfo\n'
        self.watched.tool("sinfo", script)

    def state(self, name: str, state: str, reason: str = "none", *, minutes_ago: float = 1) -> None:
        since = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() - 60 * minutes_ago))
        lines = []
        for line in (self.watched.root / "sinfo").read_text().splitlines():
            cells = line.split("|")
            lines.append("|".join([*cells[:4], state, since, reason]) if cells[0] == name else line)
        self.rows("\n".join(lines) + "\n")

    def registered(self, *, minutes_ago: float | None) -> None:
        """The slurmd of gpu-1 has registered with a boot that was so long ago, or never."""
        booted = "None"
        if minutes_ago is not None:
            booted = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() - 60 * minutes_ago))
        shown = f"NodeName=gpu-1 State=IDLE+DRAIN BootTime={booted} SlurmdStartTime={booted}"
        script = f'[ "$2" != show ] || {{ echo "{shown}"; exit; }}\nprintf "%s\\n" "$*" >>{self.said}\n'
        self.watched.tool("scontrol", f"#!/bin/sh\n{script}")

    def reservation(self, *, exists: bool) -> None:
        """Whether it has its reservation."""
        script = f'[ "$1" != show ] || exit {0 if exists else 1}\nprintf "%s\\n" "$*" >>{self.said}\n'
        self.watched.tool("scontrol", f"#!/bin/sh\n{script}")

    def slurm(self, **settings: str) -> Slurm:
        return Slurm(self.watched.node(node_name="gpu-1", **settings))

    def told(self) -> list[str]:
        return self.said.read_text().splitlines() if self.said.exists() else []


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    cluster = Cluster(tmp_path)
    monkeypatch.setenv("PATH", str(cluster.watched.tools))
    monkeypatch.setattr(paths, "uptime_seconds", lambda: 90.0)
    monkeypatch.setenv("GPU_CLUSTER_IMDS", "http://127.0.0.1:9")
    return cluster


def test_node_that_takes_jobs_is_drained_with_the_reason(cluster: Cluster) -> None:
    slurm = cluster.slurm()
    assert slurm.why_out() == ""
    slurm.take_out(Severity.REBOOT, "Xid 95 on 0000:10:1c: uncontained memory error")
    assert cluster.told() == [
        "update NodeName=gpu-1 State=DRAIN Reason=gpunode: reboot: Xid 95 on 0000:10:1c: uncontained memory error"
    ]


@pytest.mark.parametrize(
    "state", ["idle", "idle*", "mixed", "allocated", "allocated+", "completing", "planned", "idle~"]
)
def test_node_in_service(cluster: Cluster, state: str) -> None:
    cluster.state("gpu-1", state)
    assert cluster.slurm().why_out() == ""


@pytest.mark.parametrize(
    "state",
    ["drained", "draining", "drained*", "down", "down*", "maint", "fail", "powering_down", "rebooting", "x"],
)
def test_operators_own_drain_is_left_alone(cluster: Cluster, state: str) -> None:
    cluster.state("gpu-1", state, "disk swap, ask Kim")
    slurm = cluster.slurm()
    assert slurm.why_out().endswith(f"gpu-1 {state.rstrip('*')}: disk swap, ask Kim")
    slurm.keep_new_work_away("spot-interruption 2026-12-01T11:00:00Z")
    assert cluster.told() == []


def test_reason_of_an_old_drain_does_not_count_once_the_node_is_back(cluster: Cluster) -> None:
    cluster.state("gpu-1", "idle", "gpunode: reboot: Xid 95")  # as 24.11 shows it after RESUME
    cluster.state("gpu-2", "idle", "gpunode: reboot: Xid 95")
    assert cluster.slurm().why_out() == ""
    assert cluster.slurm().taken_out(Severity.REPLACE) == set()


def test_nodes_of_the_same_partitions_that_were_drained_within_the_hour_count(cluster: Cluster) -> None:
    slurm = cluster.slurm()
    cluster.state("gpu-2", "draining", "gpunode: replace: Xid 79", minutes_ago=59)
    assert slurm.taken_out(Severity.REPLACE) == {"gpu-2"}
    cluster.state("gpu-2", "drained", "gpunode: replace: Xid 79", minutes_ago=61)
    assert slurm.taken_out(Severity.REPLACE) == set()
    cluster.state("gpu-2", "drained", "disk swap, ask Kim")
    assert slurm.taken_out(Severity.REPLACE) == set()


def test_nodes_of_other_partitions_do_not_count(cluster: Cluster) -> None:
    cluster.rows(ROWS.replace("cpu-1|cpu-1|10.0.0.9|all|idle", "cpu-1|cpu-1|10.0.0.9|other|drained"))
    cluster.state("cpu-1", "drained", "gpunode: replace: Xid 79")
    assert cluster.slurm().taken_out(Severity.REPLACE) == set()


def test_node_itself_does_not_count(cluster: Cluster) -> None:
    cluster.state("gpu-1", "drained", "gpunode: replace: Xid 79")
    assert cluster.slurm().taken_out(Severity.REPLACE) == set()


def test_interruption_drains_with_its_reason(cluster: Cluster) -> None:
    cluster.slurm().keep_new_work_away("spot-interruption 2026-12-01T11:00:00Z")
    assert cluster.told() == [
        "update NodeName=gpu-1 State=DRAIN Reason=gpunode: spot-interruption 2026-12-01T11:00:00Z"
    ]


def test_node_of_a_group_that_scales_is_powered_down_after_its_jobs(cluster: Cluster) -> None:
    slurm = cluster.slurm(scales="1")
    slurm.take_out(Severity.REPLACE, "Xid 79")
    slurm.keep_new_work_away("spot-interruption 2026-12-01T11:00:00Z")
    assert cluster.told() == [
        "update NodeName=gpu-1 State=POWER_DOWN_ASAP Reason=gpunode: replace: Xid 79",
        "update NodeName=gpu-1 State=POWER_DOWN_ASAP Reason=gpunode: spot-interruption 2026-12-01T11:00:00Z",
    ]


def test_repair_in_place_only_drains_and_not_for_ever_where_a_group_scales(cluster: Cluster) -> None:
    cluster.slurm().hold(Severity.RESET, "Xid 95")
    cluster.slurm(scales="1").hold(Severity.RESET, "Xid 95")
    assert cluster.told() == [
        "update NodeName=gpu-1 State=DRAIN Reason=gpunode: reset: Xid 95",
        "update NodeName=gpu-1 State=DRAIN Reason=gpunode: reset: Xid 95 ResumeAfter=86400",
    ]


@pytest.mark.parametrize(
    ("drain_at", "state"),
    [("2026-01-01T00:00:00Z", "State=DRAIN"), ("2999-01-01T00:00:00Z", "State=POWER_DOWN_ASAP")],
)
def test_name_is_free_for_another_instance_only_while_the_capacity_lasts(
    cluster: Cluster, drain_at: str, state: str
) -> None:
    cluster.slurm(scales="1", drain_at=drain_at).keep_new_work_away("capacity-block-end")
    assert cluster.told()[0].split()[2] == state


_RESERVED = (
    "create reservation ReservationName=gpunode-gpu-1 Nodes=gpu-1 Users=root StartTime=now Duration=40 "
    "Flags=MAINT,IGNORE_JOBS"
)


@pytest.mark.parametrize(
    ("drain_at", "told"),
    [
        ("2026-01-01T00:00:00Z", _RESERVED),
        ("2999-01-01T00:00:00Z", "update NodeName=gpu-1 State=DRAIN Reason=gpunode: capacity-block-end"),
    ],
)
@pytest.mark.parametrize("scales", ["0", "1"])
def test_nodes_that_are_replaced_when_drained_reserve_themselves_at_the_end_of_their_capacity(
    cluster: Cluster, drain_at: str, told: str, scales: str
) -> None:
    cluster.reservation(exists=False)
    slurm = cluster.slurm(replaces_drained="1", scales=scales, drain_at=drain_at)
    slurm.keep_new_work_away("capacity-block-end")
    assert cluster.told() == [told if scales == "0" else told.replace("DRAIN", "POWER_DOWN_ASAP")]


def test_a_reservation_that_is_there_stays(cluster: Cluster) -> None:
    cluster.reservation(exists=True)
    cluster.slurm(replaces_drained="1", drain_at="2026-01-01T00:00:00Z").take_out(Severity.REPLACE, "Xid 79")
    assert cluster.told() == []


@pytest.mark.parametrize(
    ("state", "reason", "ends"),
    [
        ("draining", "gpunode: reset: Xid 95", True),
        ("drained", "Prolog error", True),
        ("drained", "disk swap, ask Kim", False),
        ("draining!", "gpunode: replace: Xid 79", False),
        ("idle%", "none", False),
    ],
)
def test_no_drain_of_the_software_outlives_a_node_of_a_group_that_scales(
    cluster: Cluster, state: str, reason: str, ends: bool
) -> None:
    cluster.state("gpu-1", state, reason)
    slurm = cluster.slurm(scales="1")
    slurm.keep_new_work_away("spot-interruption")
    assert bool(cluster.told()) is ends
    # A group that does not scale keeps the drain that is there, if it is no slurmd's.
    before = len(cluster.told())
    cluster.slurm().keep_new_work_away("spot-interruption")
    assert len(cluster.told()) - before == (reason == "Prolog error")


def test_node_that_is_being_powered_down_is_left_alone(cluster: Cluster) -> None:
    cluster.state("gpu-1", "idle%")
    assert cluster.slurm(scales="1").why_out() == "Slurm powers gpu-1 down"


@pytest.mark.parametrize("state", ["draining!", "idle%", "idle~"])
def test_replaced_nodes_count_while_they_are_powered_down(cluster: Cluster, state: str) -> None:
    cluster.state("gpu-2", state, "gpunode: replace: Xid 79")
    assert cluster.slurm().taken_out(Severity.REPLACE) == {"gpu-2"}
    # Slurm 24.11 keeps the reason of a repair that went well.
    cluster.state("gpu-2", "idle~", "gpunode: reset: Xid 95")
    assert cluster.slurm().taken_out(Severity.RESET) == set()


def test_node_is_found_by_its_host_name(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "ip-10-0-0-1.ec2.internal")
    cluster.rows(ROWS.replace("gpu-1|gpu-1", "gpu-1|ip-10-0-0-1"))
    slurm = Slurm(cluster.watched.node())
    slurm.take_out(Severity.REPLACE, "Xid 79")
    assert cluster.told()[0].startswith("update NodeName=gpu-1 ")


def test_node_is_found_by_the_name_that_aws_pcs_gave_it(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_CLUSTER_ROOT", str(cluster.watched.root))
    monkeypatch.setattr("socket.gethostname", lambda: "ip-10-0-0-7")
    cluster.watched.write("run/gpu-cluster/slurm-node", "gpu-2\n")
    slurm = Slurm(cluster.watched.node())
    assert slurm.name == slurm.own_name == "gpu-2"
    # A name that Slurm does not have is no reason to give up.
    cluster.watched.write("run/gpu-cluster/slurm-node", "node-0123\n")
    monkeypatch.setattr("socket.gethostname", lambda: "gpu-1")
    assert Slurm(cluster.watched.node()).name == "gpu-1"


def test_node_that_slurm_does_not_know_is_an_error(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "elsewhere")
    with pytest.raises(ActionError, match="sinfo lists no node elsewhere"):
        Slurm(cluster.watched.node()).why_out()


@pytest.mark.parametrize("said", ["", "slurm_load_node: Unable to contact slurm controller\n", "a|b\n"])
def test_garbage_of_sinfo_is_an_error(cluster: Cluster, said: str) -> None:
    cluster.rows(said)
    with pytest.raises(ActionError):
        cluster.slurm().why_out()


def test_controller_that_refuses_is_an_error(cluster: Cluster) -> None:
    cluster.watched.tool("scontrol", "#!/bin/sh\necho 'slurm_update error: Invalid user id' >&2\nexit 1\n")
    with pytest.raises(ActionError, match="scontrol: slurm_update error: Invalid user id"):
        cluster.slurm().take_out(Severity.REPLACE, "Xid 79")


def test_slurm_that_is_installed_elsewhere_is_found_with_its_configuration(cluster: Cluster) -> None:
    folder = cluster.watched.root / "opt/slurm/bin"
    folder.mkdir(parents=True)
    (cluster.watched.tools / "sinfo").rename(folder / "sinfo")
    scontrol = cluster.watched.tool("scontrol", f'#!/bin/sh\necho "$SLURM_CONF" >>{cluster.said}\n')
    scontrol.rename(folder / "scontrol")
    slurm = cluster.slurm(slurm_bin=f"{folder}/", slurm_conf="/run/slurm/conf/slurm.conf")
    slurm.take_out(Severity.REPLACE, "Xid 79")
    assert cluster.told() == ["/run/slurm/conf/slurm.conf"]


def test_jobs_of_the_node_and_all_their_processes_get_sigterm(cluster: Cluster) -> None:
    said = cluster.watched.root / "scancel"
    cluster.watched.tool("scancel", f'#!/bin/sh\necho "$*" >{said}\n')
    assert cluster.slurm().end_work() == "scancel: SIGTERM to the jobs of gpu-1"
    assert said.read_text() == "--signal=TERM --full --nodelist=gpu-1\n"


def test_slurm_that_does_not_signal_jobs_says_why(cluster: Cluster) -> None:
    cluster.watched.tool("scancel", "#!/bin/sh\necho 'scancel: error: Access denied' >&2; exit 1\n")
    with pytest.raises(ActionError, match="Access denied"):
        cluster.slurm().end_work()


def test_node_under_repair_is_held_until_it_is_resumed(cluster: Cluster) -> None:
    slurm = cluster.slurm()
    slurm.hold(Severity.REBOOT, "Xid 95")
    assert cluster.told() == ["update NodeName=gpu-1 State=DRAIN Reason=gpunode: reboot: Xid 95"]
    cluster.state("gpu-1", "draining", "gpunode: reboot: Xid 95")
    assert slurm.holds()
    assert slurm.busy() == "Slurm has gpu-1 draining"
    cluster.state("gpu-1", "drained*", "gpunode: reboot: Xid 95")
    assert slurm.busy() == ""
    slurm.release()
    assert cluster.told()[1:] == ["update NodeName=gpu-1 State=RESUME"]


@pytest.mark.parametrize("minutes_ago", [30, None])
def test_node_is_not_resumed_before_its_slurmd_has_registered_since_its_boot(
    cluster: Cluster, minutes_ago: float | None
) -> None:
    cluster.state("gpu-1", "drained", "gpunode: reboot: Xid 95")
    cluster.registered(minutes_ago=minutes_ago)
    with pytest.raises(NotYet, match="slurmd of gpu-1 has not registered since this boot"):
        cluster.slurm().release()
    assert cluster.told() == []
    cluster.registered(minutes_ago=1.5)
    cluster.slurm().release()
    assert cluster.told() == ["update NodeName=gpu-1 State=RESUME"]


def test_node_whose_clock_was_set_is_resumed_in_the_end(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "uptime_seconds", lambda: 600.0)
    cluster.state("gpu-1", "drained", "gpunode: reboot: Xid 95")
    cluster.registered(minutes_ago=600)
    cluster.slurm().release()
    assert cluster.told() == ["update NodeName=gpu-1 State=RESUME"]


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("drained", "disk swap, ask Kim"),
        ("drained", "gpunode: spot-interruption 2026-12-01T11:00:00Z"),
        ("drained", "gpunode"),
        ("drained", "Kim: gpunode: reboot: Xid 95"),
        ("idle", "gpunode: reboot: Xid 95"),
        ("down", "Not responding"),
    ],
)
def test_hold_of_anyone_else_is_never_released(cluster: Cluster, state: str, reason: str) -> None:
    cluster.state("gpu-1", state, reason)
    slurm = cluster.slurm()
    assert not slurm.holds()
    slurm.release()
    assert cluster.told() == []


def test_node_that_slurm_took_down_for_its_reboot_is_resumed(cluster: Cluster) -> None:
    cluster.state("gpu-1", "down*", "gpunode: reboot: Xid 95")
    assert cluster.slurm().busy() == ""
    cluster.slurm().release()
    assert cluster.told() == ["update NodeName=gpu-1 State=RESUME"]


def test_repairs_of_others_count_from_their_severity_on(cluster: Cluster) -> None:
    cluster.state("gpu-2", "drained", "gpunode: reboot: Xid 95")
    slurm = cluster.slurm()
    assert slurm.taken_out(Severity.RESET) == slurm.taken_out(Severity.REBOOT) == {"gpu-2"}
    assert slurm.taken_out(Severity.REPLACE) == set()
    assert slurm.size == 3


@pytest.mark.parametrize(
    ("state", "reason", "minutes_ago", "is_released"),
    [
        ("drained", "gpunode: spot-interruption 2026-12-01T11:00:00Z", 5, True),
        ("drained", "gpunode: capacity-block-end", 5, True),
        ("drained*", "gpunode: replace: Xid 79", 5, True),
        ("drained", "Prolog error", 5, True),
        ("drained", "gpunode: reboot: Xid 95", 1, False),
        ("drained", "disk swap, ask Kim", 5, False),
        ("idle", "gpunode: capacity-block-end", 5, False),
    ],
)
def test_drain_of_an_earlier_instance_ends_with_it(
    cluster: Cluster, state: str, reason: str, minutes_ago: float, is_released: bool
) -> None:
    cluster.state("gpu-1", state, reason, minutes_ago=minutes_ago)
    assert cluster.slurm().release_former(time.time() - 180) == (reason if is_released else "")
    assert cluster.told() == ["update NodeName=gpu-1 State=RESUME"] * is_released


def test_drain_without_a_time_is_kept(cluster: Cluster) -> None:
    cluster.rows(ROWS.replace("mixed|Unknown|none", "drained|Unknown|gpunode: capacity-block-end"))
    assert cluster.slurm().release_former(time.time()) == ""
