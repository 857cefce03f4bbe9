"""What the user data of a node say to each orchestrator, and on each operating system."""

from __future__ import annotations

import base64
import configparser
import email
import io
import json
import re
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

import cdk_gpu_clusters.node
from cdk_gpu_clusters.node.mig import mig_settings
from cdk_gpu_clusters.node.settings import NodeSettings, UserDataPart
from cdk_gpu_clusters.node.storage import LustreMount, ScratchSettings
from cdk_gpu_clusters.node.user_data import USER_DATA_LIMIT_BYTES, check_user_data, user_data_size_bytes
from cdk_gpu_clusters.rules.mig import MigLayout, plan_mig
from rendered import rendered

FOLDER = Path(cdk_gpu_clusters.node.__file__).parent
ORDER = "/etc/systemd/system/gpu-node-boot.service.d/order.conf"
GATE = "/etc/systemd/system/gpu-node-boot.service"
NODE_CONFIG = '{"apiVersion": "node.eks.aws/v1alpha1"}\n'
LONGEST = plan_mig("p4d.24xlarge", [MigLayout(["1g.5gb+me", *["1g.5gb"] * 6])] * 7 + [MigLayout(["1g.5gb"] * 7)])


def settings(orchestrator: str | None, **changes: Any) -> NodeSettings:
    config = NODE_CONFIG if orchestrator == "eks" else ""
    return NodeSettings(**{"fleet_name": "trainers", "orchestrator": orchestrator, "node_config": config, **changes})


def full(orchestrator: str) -> NodeSettings:
    """A node with all there is."""
    return settings(
        orchestrator,
        accelerator_kind="gpu",
        accelerator_count=8,
        efa_interface_count=4,
        huge_pages=5128,
        log_group_name="/gpu/${Token[AWS.StackName.9]}/nodes",
        mig=mig_settings(LONGEST),
        mounts=(LustreMount(mount_point="/fsx", dns_name="${Token[Fsx.1]}", mount_name="${Token[Fsx.2]}"),),
        scratch=ScratchSettings(disk_count=8),
        extra_environment={"DATASET": "it's $here"},
    )


def parts(document: str) -> list[Any]:
    message = email.message_from_string(document)
    assert message.get_content_type() == "multipart/mixed"
    assert not message.defects
    return [part for part in message.walk() if not part.is_multipart()]


def types(orchestrator: str | None, **changes: Any) -> list[str]:
    return [part.get_content_type() for part in parts(rendered(settings(orchestrator, **changes)))]


def early(document: str) -> dict[str, str]:
    """The files that travel in the user data, by their path."""
    [archive] = re.findall(r"[A-Za-z0-9+/]{400,}={0,2}", document)
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(archive))) as opened:
        members = {f"/{member.name}": opened.extractfile(member) for member in opened if member.isfile()}
        return {path: file.read().decode() for path, file in members.items() if file is not None}


def order(orchestrator: str | None) -> dict[str, dict[str, str]]:
    """The drop-in of the boot check, as systemd reads it."""
    unit = configparser.ConfigParser(strict=False)
    unit.read_string(early(rendered(settings(orchestrator)))[ORDER])
    return {name: dict(section) for name, section in unit.items() if name != "DEFAULT"}


@pytest.mark.parametrize(
    ("orchestrator", "expected"),
    [
        (None, ["text/cloud-config", "text/x-shellscript"]),
        ("ec2", ["text/cloud-config", "text/x-shellscript"]),
        ("eks", ["text/cloud-config", "text/x-shellscript", "application/node.eks.aws"]),
        ("pcs", ["text/cloud-boothook", "text/x-shellscript"]),
    ],
)
def test_each_orchestrator_gets_the_parts_that_it_reads(orchestrator: str | None, expected: list[str]) -> None:
    assert types(orchestrator) == expected
    part = UserDataPart(content_type="text/x-shellscript", body="#!/bin/sh\nexit 0\n")
    assert types(orchestrator, user_parts=(part,)) == [*expected, "text/x-shellscript"]


def test_a_node_of_eks_with_nothing_to_say_to_nodeadm_says_nothing() -> None:
    assert types("eks", node_config="") == ["text/cloud-config", "text/x-shellscript"]


@pytest.mark.parametrize("orchestrator", [None, "ec2", "eks"])
def test_the_boot_check_comes_after_the_users_scripts(orchestrator: str | None) -> None:
    assert "cloud-final.service" in order(orchestrator)["Unit"]["after"].split()


def test_kubelet_is_started_by_nobody_before_the_node_is_ready() -> None:
    found = order("eks")
    assert "nvidia-kmod-load.service" in found["Unit"]["after"].split()
    assert found["Unit"]["before"] == "nodeadm-run.service"
    assert found["Install"]["requiredby"] == "nodeadm-run.service"


def test_slurmd_of_aws_pcs_waits_for_a_check_that_does_not_wait_for_cloud_final() -> None:
    found = order("pcs")
    assert found["Unit"] == {"before": "slurmd.service"}
    assert found["Install"]["requiredby"] == "slurmd.service"
    base = (FOLDER / "files/gpu-node-boot.service").read_text()
    assert not re.search(r"(?m)^(After|Requires|Wants)=.*cloud-final", base)


@pytest.mark.parametrize("orchestrator", ["eks", "pcs"])
def test_the_unit_that_holds_work_back_is_there_when_s3_is_not(orchestrator: str) -> None:
    text = early(rendered(settings(orchestrator)))[GATE]
    assert "ExecStart=/usr/local/bin/gpunode boot" in text
    assert "[Install]" in text


def test_a_plain_node_has_no_work_to_hold_back() -> None:
    document = rendered(settings("ec2"))
    assert GATE not in early(document)
    first = parts(document)[0].get_payload()
    assert "gpu-node-boot" not in first, "it is enabled by the script that fetches it"
    assert {"before", "requiredby"}.isdisjoint(order("ec2")["Unit"])


def test_the_boot_check_is_queued_on_eks_before_cloud_final_and_without_waiting() -> None:
    first, script, _ = parts(rendered(settings("eks")))
    assert (
        'systemctl enable gpu-node-boot && systemctl start --no-block gpu-node-boot gpu-software"]'
        in first.get_payload()
    )
    assert not re.search(r"systemctl start (?!--no-block)\S*gpu-node", script.get_payload())


def test_pcs_never_starts_the_boot_check_before_its_program_is_there() -> None:
    first, script = parts(rendered(settings("pcs")))
    assert "systemctl enable gpu-node-boot" in first.get_payload()
    assert re.findall("systemctl start.*", first.get_payload()) == ["systemctl start --no-block gpu-software"]
    fetch, _, start = script.get_payload().partition("then exit 1; fi\n")
    assert "systemctl start gpu-software" in fetch
    assert "systemctl start --no-block gpu-node-boot " in start


@pytest.mark.parametrize("orchestrator", ["eks", "pcs"])
def test_documents_fit_hold_no_secret_and_keep_tokens_readable(orchestrator: str) -> None:
    document = rendered(full(orchestrator))
    assert user_data_size_bytes(document) < USER_DATA_LIMIT_BYTES
    assert check_user_data(document) == []
    for token in ("${Token[AWS.StackName.9]}", "${Token[Fsx.1]}", "${Token[Fsx.2]}"):
        assert token in document
    assert document.isascii()


@pytest.fixture
def boothook(tmp_path: Path) -> Any:
    """Runs the boothook of a node below a directory; its output says which programs it ran."""
    root = tmp_path / "root"
    done = root / "var/lib/cloud/instance"
    done.mkdir(parents=True)
    splitter = tmp_path / "mig-apply"
    splitter.write_text('#!/bin/sh\necho "mig-apply $MIG_BOOTHOOK"\n')
    splitter.chmod(0o755)

    def run(given: NodeSettings) -> tuple[Path, str]:
        text = parts(rendered(given))[0].get_payload()
        text = re.sub(r"(?<=[ >])(/etc|/var|/usr)", rf"{root}\1", text).replace("-xzC / ", f"-xzC {root} ")
        text = text.replace(f"{root}/usr/local/libexec/gpu-cluster/mig-apply", str(splitter))
        said = subprocess.run(
            ["sh", "-c", f"systemctl() {{ echo systemctl $*; }}\n{text}"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert said.stderr == ""
        return root, said.stdout

    return run


def test_the_boothook_sets_a_node_up_once_and_splits_its_gpus_at_every_boot(boothook: Any) -> None:
    given = full("pcs")
    root, first = boothook(given)
    assert (root / ORDER[1:]).exists()
    assert first == ("systemctl enable gpu-node-boot\nsystemctl start --no-block gpu-software\nmig-apply 1\n")
    node_env = (root / "etc/gpu-cluster/node.env").read_text()
    assert "GPU_ORCHESTRATOR=pcs\n" in node_env
    assert "GPU_LOG_GROUP='/gpu/${Token[AWS.StackName.9]}/nodes'\n" in node_env
    assert (root / "etc/gpu-cluster/mounts").read_text().startswith("/fsx ${Token[Fsx.1]} ${Token[Fsx.2]} ")
    assert "export SCRATCH_DIR=/scratch\n" in (root / "etc/profile.d/gpu-cluster.sh").read_text()
    assert "vm.nr_hugepages = 5128" in (root / "etc/sysctl.d/99-gpu-cluster.conf").read_text()
    assert "MIG_GPU_COUNT=8" in (root / "etc/default/mig").read_text()
    (root / "etc/gpu-cluster/node.env").write_text("an operator was here\n")
    _, second = boothook(given)
    assert second == "mig-apply 1\n"
    assert (root / "etc/gpu-cluster/node.env").read_text() == "an operator was here\n"


def test_values_reach_a_pcs_node_unchanged(boothook: Any) -> None:
    root, _ = boothook(settings("pcs", extra_environment={"ODD": 'it\'s $(trap) `here` \\ "there"'}))
    shown = subprocess.run(
        ["sh", "-c", f'. {root}/etc/profile.d/gpu-cluster.sh; printf %s "$ODD"'],
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout == 'it\'s $(trap) `here` \\ "there"'


def test_a_reboot_for_mig_under_pcs_does_not_wait_for_the_cloud_init_that_runs_it() -> None:
    script = (FOLDER / "scripts/mig-apply.sh").read_text()
    body = script.partition("cloud_init_rests() {\n")[2]
    assert body.lstrip().startswith("if [[ -n ${MIG_BOOTHOOK:-} ]]; then return; fi\n")


def test_json_of_nodeadm_travels_as_it_is() -> None:
    assert json.loads(parts(rendered(settings("eks")))[2].get_payload()) == json.loads(NODE_CONFIG)


# What differs between Amazon Linux 2023 and Ubuntu 24.04.


@pytest.mark.parametrize("script", sorted((FOLDER / "scripts").glob("*.sh")), ids=lambda path: path.name)
def test_a_script_that_asks_a_package_manager_knows_both(script: Path) -> None:
    lines = [line for line in script.read_text().splitlines() if not line.lstrip().startswith("#")]
    asking = [line for line in lines if re.search(r"\b(dnf|yum|rpm|apt|apt-get|dpkg|snap)\b", line)]
    words = {word for line in asking for word in line.split()}
    assert ("apt-get" in words) is ("dnf" in words)
    assert words.isdisjoint({"yum", "rpm", "dpkg", "snap"})


@pytest.mark.parametrize("unit", sorted((FOLDER / "files").glob("*.service")), ids=lambda path: path.name)
def test_units_know_both_names_of_the_stage_that_writes_settings(unit: Path) -> None:
    """cloud-init 24.3 and later, as on Ubuntu 24.04, calls it cloud-init-network; 22.2, as on AL2023, cloud-init."""
    names = {name for line in unit.read_text().splitlines() if line.startswith("After=") for name in line[6:].split()}
    assert ("cloud-init.service" in names) is ("cloud-init-network.service" in names)


def test_programs_of_both_systems_are_found() -> None:
    """/usr/local/bin has the AWS CLI of Ubuntu's Deep Learning AMIs; /usr/bin/python3 is 3.9 on AL2023, 3.12 on Ubuntu."""
    for name in ("lib.sh", "gpunode.sh"):
        assert "/usr/local/bin" in (FOLDER / "scripts" / name).read_text()
    assert "/usr/bin/python3" in (FOLDER / "scripts/gpunode.sh").read_text()
