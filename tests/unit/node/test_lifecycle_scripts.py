"""The scripts that AWS PCS runs on a node, and what its controller must know, against the published API model."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import botocore.session
import pytest

from cdk_gpu_clusters.node.lifecycle_scripts import (
    ExecutionPolicy,
    LifecycleStage,
    OnError,
    pcs_lifecycle_scripts,
)
from cdk_gpu_clusters.node.settings import NodeSettings
from cdk_gpu_clusters.node.slurm_settings import CLUSTER_SETTINGS, cluster_settings
from cdk_gpu_clusters.node.software import late_files
from cdk_gpu_clusters.node.storage import ScratchSettings
from cdk_gpu_clusters.rules.pcs import SettingsLevel, check_slurm_settings

SETTINGS = NodeSettings(
    fleet_name="train", orchestrator="pcs", scratch=ScratchSettings(disk_count=8), boot_deadline_seconds=600
)


@pytest.fixture(scope="module")
def model() -> botocore.model.ServiceModel:
    return botocore.session.get_session().get_service_model("pcs")


def _shape(model: botocore.model.ServiceModel, name: str) -> Any:
    """A shape, whose class has what its kind has."""
    return model.shape_for(name)


def test_names_stages_and_policies_are_those_of_the_api(model: botocore.model.ServiceModel) -> None:
    script, name = _shape(model, "NodeLifecycleScript"), model.shape_for("NodeLifecycleScriptNameString")
    assert {policy.value for policy in OnError} == set(_shape(model, "OnError").enum)
    assert {policy.value for policy in ExecutionPolicy} == set(_shape(model, "ExecutionPolicy").enum)
    stages = {one[0].upper() + one[1:] for one in _shape(model, "NodeLifecycleStages").members}
    assert {stage.value for stage in LifecycleStage} == stages
    scripts = pcs_lifecycle_scripts(SETTINGS)
    for one in scripts:
        assert re.fullmatch(name.metadata["pattern"], one.name)
        assert len(one.name) <= name.metadata["max"]
        assert len(one.arguments) <= model.shape_for("NodeLifecycleScriptArguments").metadata["max"]
        assert one.content.isascii()
        assert "${Token" not in one.content
    assert len({one.name for one in scripts}) == len(scripts)
    assert set(script.required_members) == {"name", "scriptSource"}


def run(content: str, folder: Path, *, boot_fails: bool) -> tuple[int, str, list[str]]:
    """Run a script with a systemctl that notes its calls."""
    calls = folder / "calls"
    failing = (
        "case $* in 'start gpu-node-boot') exit 1;; is-failed*) exit 1;; esac"
        if boot_fails
        else ("case $* in is-failed*) exit 1;; esac")
    )
    for name, text in (("systemctl", f'echo "$*" >>{calls}\n{failing}\n'), ("timeout", 'shift; exec "$@"\n')):
        (folder / name).write_text(f"#!/bin/sh\n{text}")
        (folder / name).chmod(0o755)
    result = folder / "boot.json"
    result.write_text('{"state": "failed", "reason": "driver: 7 of 8 GPUs answer", "fix": ""}\n')
    script = content.replace("/run/gpu-cluster", str(folder))
    environment = {"PATH": f"{folder}:/usr/bin:/bin", "PCS_NODE_ID": "train-1"}
    done = subprocess.run(["sh", "-c", script], env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, calls.read_text().splitlines()


def test_a_sound_node_is_started_once_and_waited_for(tmp_path: Path) -> None:
    first = pcs_lifecycle_scripts(SETTINGS)[0]
    assert first.on_error is OnError.TERMINATE
    assert first.execution is ExecutionPolicy.EVERY_BOOT
    status, said, calls = run(first.content, tmp_path, boot_fails=False)
    assert (status, said) == (0, "")
    assert calls[-1] == "start gpu-node-boot"
    assert (tmp_path / "slurm-node").read_text() == "train-1\n"
    assert "start gpu-software" in calls
    assert "start gpu-scratch" in calls
    assert not any("restart" in call for call in calls)


def test_a_node_that_fails_its_checks_says_why_and_fails(tmp_path: Path) -> None:
    status, said, _ = run(pcs_lifecycle_scripts(SETTINGS)[0].content, tmp_path, boot_fails=True)
    assert (status, said) == (1, "gpu-node-boot: driver: 7 of 8 GPUs answer\n")


def test_aws_pcs_accepts_the_cluster_settings() -> None:
    assert check_slurm_settings(CLUSTER_SETTINGS, slurm_version="25.11", level=SettingsLevel.CLUSTER) == []
    # The other side of the rule: Slurm has more than AWS PCS accepts.
    assert check_slurm_settings({"PrologEpilogTimeout": "60"}, slurm_version="25.11", level=SettingsLevel.CLUSTER)


def test_the_step_manager_of_aws_pcs_has_the_flag_that_it_needs() -> None:
    # A value replaces that of PCS, and slurmctld ends where its step manager has no Contain (slurm.conf(5)).
    assert set(CLUSTER_SETTINGS["PrologFlags"].split(",")) == {"Alloc", "Contain"}
    assert "Contain" in cluster_settings({"PrologFlags": "X11"})["PrologFlags"].split(",")


def test_settings_of_the_user_come_last_and_lists_are_joined() -> None:
    merged = cluster_settings({"JobRequeue": "0", "PrologFlags": "Contain,Alloc", "DefMemPerCPU": "100"})
    assert merged["JobRequeue"] == "0"
    assert merged["PrologFlags"] == "Alloc,Contain"
    assert merged["DefMemPerCPU"] == "100"
    assert cluster_settings()["SchedulerParameters"] == "nohold_on_prolog_fail,requeue_on_resume_failure"


def test_the_words_that_aws_pcs_sets_itself_are_kept_for_each_version() -> None:
    def words(version: str, own: str = "") -> set[str]:
        own_settings = {"SchedulerParameters": own} if own else {}
        return set(cluster_settings(own_settings, slurm_version=version)["SchedulerParameters"].split(","))

    ours = {"nohold_on_prolog_fail", "requeue_on_resume_failure"}
    assert words("25.05") == ours
    assert words("26.05") == words("25.11") == ours | {"enable_expedited_requeue", "requeue_delay=5"}
    # Slurm reads the first value of a name: that of the user is the only one.
    assert words("26.05", "requeue_delay=30,bf_continue") == ours | {
        "enable_expedited_requeue", "requeue_delay=30", "bf_continue"
    }  # fmt: skip


def test_every_node_has_a_prolog_and_an_epilog_that_can_be_run() -> None:
    files = {file.path: file for file in late_files()}
    for name in ("Prolog", "Epilog"):
        folder = CLUSTER_SETTINGS[name].removesuffix("/*")
        [own] = [file for path, file in files.items() if path.startswith(f"{folder}/")]
        assert own.mode == 0o755
        assert own.text.rstrip().endswith(f'gpunode" {name.lower()}')


@pytest.mark.parametrize(
    ("unit", "is_kept"),
    [("slurmd.service", True), ("nvidia-fabricmanager.service", True), ("gpu-node-watch.service", True),
     ("docker.service", True), ("cron.service", False), ("ssh.service", False)],
)  # fmt: skip
def test_needrestart_leaves_what_carries_jobs_alone(unit: str, is_kept: bool) -> None:
    """needrestart evaluates its files as Perl, and takes the first pattern that matches (needrestart, README)."""
    [file] = [file for file in late_files() if file.path == "/etc/needrestart/conf.d/gpu-cluster.conf"]
    program = (
        "our %nrconf; eval do { local $/; <STDIN> }; die $@ if $@;"
        ' print((grep { $ARGV[0] =~ /$_/ && !$nrconf{override_rc}{$_} } keys %{$nrconf{override_rc}}) ? "kept" : "");'
    )
    done = subprocess.run(["perl", "-e", program, unit], input=file.text, capture_output=True, text=True, check=True)
    assert done.stdout == ("kept" if is_kept else "")
