"""The user-data document: what is in it, what it costs, and what is refused."""

from __future__ import annotations

import email
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

import cdk_gpu_clusters.node
from cdk_gpu_clusters.node.settings import NodeSettings, UserDataPart, check_settings, nccl_environment
from cdk_gpu_clusters.node.user_data import USER_DATA_LIMIT_BYTES, check_user_data, user_data_size_bytes
from rendered import SOFTWARE, rendered

TOKENS = {
    "fleet_name": "${Token[Fleet.1]}",
    "region": "${Token[AWS.Region.4]}",
    "launch_hook_name": "${Token[Hook.7]}",
    "log_group_name": "/gpu/${Token[AWS.StackName.9]}/nodes",
}
LARGEST: dict[str, Any] = {
    "fleet_name": "f" * 60,
    "region": "ap-southeast-2",
    "launch_hook_name": "h" * 80,
    "terminate_hook_name": "t" * 80,
    "log_group_name": "/gpu-clusters/" + "l" * 80,
    "accelerator_kind": "gpu",
    "accelerator_count": 8,
    "efa_interface_count": 32,
    "processes_per_node": 8,
    "nccl_environment": {"NCCL_DEBUG": "WARN", "FI_EFA_USE_HUGE_PAGE": "0"},
    "extra_environment": {"HF_HOME": "/fsx/huggingface", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1"},
    "huge_pages": 5128,
}


def settings(**changes: Any) -> NodeSettings:
    return NodeSettings(**{"fleet_name": "trainers", **changes})


def parts(document: str) -> list[Any]:
    message = email.message_from_string(document)
    assert message.get_content_type() == "multipart/mixed"
    assert not message.defects
    return [part for part in message.walk() if not part.is_multipart()]


def written(document: str, path: str) -> str:
    config = YAML(typ="safe").load(parts(document)[0].get_payload())
    [content] = [file["content"] for file in config["write_files"] if file["path"] == path]
    return str(content)


def install_archive(document: str, root: Path) -> None:
    config = YAML(typ="safe").load(parts(document)[0].get_payload())
    [[*_, command]] = config["bootcmd"]
    subprocess.run(["sh", "-c", command.replace("-xzC / ", f"-xzC {root} ").replace("systemctl", "true")], check=True)


def test_document_is_plain_cloud_config_then_script_then_the_users_parts_in_order() -> None:
    user = (
        UserDataPart(content_type="text/x-shellscript", body="#!/bin/sh\necho one\n"),
        UserDataPart(content_type="text/cloud-config", body="packages: [htop]\n"),
    )
    document = rendered(settings(user_parts=user))
    kinds = [part.get_content_type() for part in parts(document)]
    assert kinds == ["text/cloud-config", "text/x-shellscript", "text/x-shellscript", "text/cloud-config"]
    said = [str(part.get_payload()) for part in parts(document)[2:]]
    assert [text[-len(part.body) :] for text, part in zip(said, user, strict=True)] == [part.body for part in user]
    assert "base64" not in [part.get("Content-Transfer-Encoding") for part in parts(document)]
    assert document.isascii()


def test_cloud_config_of_the_user_adds_to_ours_and_does_not_replace_it() -> None:
    user = UserDataPart(content_type="text/cloud-config", body="write_files: []\n")
    ours, _, theirs = parts(rendered(settings(user_parts=(user,))))
    assert theirs["X-Merge-Type"].startswith("list(append)")
    assert ours["X-Merge-Type"] is None


@pytest.mark.parametrize(
    ("body", "added"),
    [
        (
            "#cloud-config\n\n# mine\nwrite_files: []\n",
            "#cloud-config\n\n# mine\nmerge_how: {}\nwrite_files: []\n",
        ),
        ("write_files: []\n", "merge_how: {}\nwrite_files: []\n"),
        ("#cloud-config\n{write_files: []}\n", "#cloud-config\n{{write_files: []}}\n"),
        ("#cloud-config\nmerge_how: x\na: []\n", "#cloud-config\nmerge_how: x\na: []\n"),
    ],
)
def test_cloud_config_of_the_user_says_itself_how_it_is_merged(body: str, added: str) -> None:
    """EKS makes new parts out of ours, and does not say whether it keeps their headers."""
    user = UserDataPart(content_type="text/cloud-config", body=body)
    *_, theirs = parts(rendered(settings(user_parts=(user,))))
    assert theirs.get_payload() == added.format('"list(append)+dict(no_replace,recurse_list)+str()"')


def test_boundary_is_never_inside_a_users_part() -> None:
    body = "#!/bin/sh\ncat <<END\n--gpu-cluster-node\n--gpu-cluster-node-\nEND\n"
    document = rendered(settings(user_parts=(UserDataPart(content_type="text/x-shellscript", body=body),)))
    assert len(parts(document)) == 3
    assert parts(document)[2].get_payload() == body


@pytest.mark.parametrize("value", TOKENS.values())
def test_tokens_survive_verbatim_in_plain_text(value: str) -> None:
    document = rendered(settings(**TOKENS))
    assert f"='{value}'" in written(document, "/etc/gpu-cluster/node.env")


def test_every_value_reaches_the_shell_unchanged(tmp_path: Path) -> None:
    fleet = 'it\'s a $(trap) `here` \\ "there" # and more'
    environment = tmp_path / "node.env"
    environment.write_text(written(rendered(settings(fleet_name=fleet)), "/etc/gpu-cluster/node.env"))
    shown = subprocess.run(
        ["bash", "-euc", f'. {environment}; printf %s "$GPU_FLEET"'],
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout == fleet


def test_what_is_early_is_installed_with_its_modes(tmp_path: Path) -> None:
    install_archive(rendered(settings()), tmp_path)
    modes = {
        str(path.relative_to(tmp_path)): oct(path.stat().st_mode & 0o777)
        for path in tmp_path.rglob("*")
        if path.is_file()
    }
    assert modes == {
        "usr/local/libexec/gpu-cluster/lib.sh": "0o644",
        "usr/local/libexec/gpu-cluster/fetch-software": "0o755",
        "etc/systemd/system.conf.d/90-gpu-cluster.conf": "0o644",
        "etc/security/limits.d/99-gpu-cluster.conf": "0o644",
        "etc/systemd/system/gpu-node-boot.service.d/order.conf": "0o644",
        "etc/systemd/system/gpu-software.service": "0o644",
    }
    limits = (tmp_path / "etc/security/limits.d/99-gpu-cluster.conf").read_text()
    assert "* hard memlock unlimited" in limits


def test_software_is_fetched_beside_cloud_init_as_soon_as_the_settings_are_written() -> None:
    document = rendered(settings())
    assert 'systemctl daemon-reload && systemctl start --no-block gpu-software"]' in document
    environment = written(document, "/etc/gpu-cluster/node.env")
    assert f"GPU_SOFTWARE_SHA256={SOFTWARE.sha256}\n" in environment
    unit = (Path(cdk_gpu_clusters.node.__file__).parent / "files/gpu-software.service").read_text()
    assert "After=network-online.target cloud-init.service cloud-init-network.service\n" in unit
    assert "cloud-final" not in unit, "it waits for this unit"


def test_start_script_waits_for_the_software_and_then_starts_without_waiting_for_itself() -> None:
    script = parts(rendered(settings()))[1].get_payload()
    fetch, _, start = script.partition("then exit 1; fi\n")
    assert fetch.endswith("! systemctl start gpu-software; ")
    assert "systemctl start --no-block gpu-node-boot gpu-node-drain gpu-node-watch gpu-node-ship.timer" in start
    assert "gpu-node-drain" not in parts(rendered(settings(watch_drain=False)))[1].get_payload()


def test_document_is_the_same_every_time_and_in_every_process() -> None:
    document = rendered(NodeSettings(**LARGEST))
    code = (
        "import sys; from rendered import *\n"
        f"sys.stdout.write(rendered(NodeSettings(**{LARGEST!r}))); assert 'aws_cdk' not in sys.modules"
    )
    again = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=_environment())
    assert again.stdout == document


def _environment() -> dict[str, str]:
    return {"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": "77"}


def test_largest_settings_leave_room_for_later_parts() -> None:
    size = user_data_size_bytes(rendered(NodeSettings(**LARGEST)))
    assert USER_DATA_LIMIT_BYTES - size > 6 * 1024, size


def test_gpu_nodes_with_efa_guard_against_tcp_and_nothing_harmful_is_set() -> None:
    efa = nccl_environment(settings(accelerator_kind="gpu", accelerator_count=8, efa_interface_count=32))
    assert efa == {"FI_PROVIDER": "efa", "NCCL_SOCKET_IFNAME": "^docker,lo,veth"}
    without = nccl_environment(settings(accelerator_kind="gpu", accelerator_count=1))
    assert "FI_PROVIDER" not in without
    assert nccl_environment(settings(accelerator_kind="neuron", accelerator_count=16, efa_interface_count=8)) == {}


def test_user_overrides_and_removes_nccl_defaults() -> None:
    given = settings(
        accelerator_kind="gpu", accelerator_count=8, efa_interface_count=4,
        nccl_environment={"FI_PROVIDER": None, "NCCL_SOCKET_IFNAME": "en", "NCCL_DEBUG": "INFO"},
        extra_environment={"HF_HOME": "/fsx/a b"},
    )  # fmt: skip
    document = rendered(given)
    lines = written(document, "/etc/nccl.conf").splitlines()
    assert lines[1:] == ["NCCL_DEBUG=INFO", "NCCL_SOCKET_IFNAME=en"]
    assert "=" not in lines[0], "NCCL would take the comment for a variable"
    assert written(document, "/etc/profile.d/gpu-cluster.sh") == "export HF_HOME='/fsx/a b'\n"


def test_huge_pages_are_left_to_the_efa_installer_unless_asked_for() -> None:
    assert "nr_hugepages" not in rendered(settings())
    path = "/etc/sysctl.d/99-gpu-cluster.conf"
    assert written(rendered(settings(huge_pages=5128)), path) == "vm.nr_hugepages = 5128\n"


def test_enum_members_are_written_as_their_values() -> None:
    from enum import Enum

    class Kind(str, Enum):
        GPU = "gpu"

    document = rendered(settings(accelerator_kind=Kind.GPU, accelerator_count=8))
    assert "GPU_ACCELERATOR=gpu\n" in written(document, "/etc/gpu-cluster/node.env")


@pytest.mark.parametrize(
    "wrong",
    [
        {"accelerator_kind": "tpu", "accelerator_count": 1},
        {"accelerator_kind": "gpu"},
        {"accelerator_count": 1},
    ],
)
def test_accelerators_that_contradict_themselves_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="accelerator_kind"):
        settings(**wrong)


def test_too_long_document_names_the_biggest_part_and_the_way_out() -> None:
    part = UserDataPart(content_type="text/x-shellscript", body="#!/bin/sh\n" + "# padding\n" * 1500)
    [finding] = check_user_data(rendered(settings(user_parts=(part,))))
    assert finding.id == "GPU-UD-001"
    assert "part 3 (text/x-shellscript) 15,0" in finding.cause
    assert "16,384" in finding.allowed
    assert "asset" in finding.fix


@pytest.mark.parametrize(("over", "ids"), [(0, []), (1, ["GPU-UD-001"])])
def test_limit_is_exact(over: int, ids: list[str]) -> None:
    document = rendered(settings())
    document += " " * (USER_DATA_LIMIT_BYTES - len(document) + over)
    assert [finding.id for finding in check_user_data(document)] == ids


@pytest.mark.parametrize(
    "line",
    [
        "export AWS_ACCESS_KEY_ID=AKIA" + "ABCDEFGHIJKLMNOP",
        "-----BEGIN RSA " + "PRIVATE KEY-----",
        "mount -o username=me,password=hunter22",
        "DB_PASSWORD: hunter22",
        'HF_TOKEN="hf_abcdefgh"',
        "aws_secret_access_key = abcdefgh/ijkl",
    ],
)
def test_secrets_are_found_with_their_line_and_never_repeated(line: str) -> None:
    part = UserDataPart(content_type="text/x-shellscript", body=f"#!/bin/sh\n{line}\n")
    document = rendered(settings(user_parts=(part,)))
    [finding] = check_user_data(document)
    assert (finding.id, finding.severity.value) == ("GPU-UD-002", "error")
    assert document.splitlines()[int(finding.got.removeprefix("line ")) - 1] == line
    assert "hunter22" not in str(finding)


@pytest.mark.parametrize(
    "line",
    [
        "password=$(aws secretsmanager get-secret-value --secret-id db)",
        'PASSWORD="$DB_PASSWORD"',
        "HF_TOKEN_FILE=/run/token",
        "secret_key=${Token[Secret.3]}",
        "echo no password here",
        "DB_PASSWORD=arn:aws:secretsmanager:us-east-1:111122223333:secret:db",
        "API_KEY='arn:aws-cn:ssm:cn-north-1:111122223333:parameter/key'",
        "db_password: /prod/db/password",
        'HF_TOKEN="/run/secrets/hf"',
    ],
)
def test_references_to_secrets_are_not_secrets(line: str) -> None:
    assert check_user_data(f"#!/bin/sh\n{line}\n") == []


def test_own_document_is_clean() -> None:
    assert check_user_data(rendered(NodeSettings(**LARGEST))) == []
    assert check_settings(NodeSettings(**LARGEST)) == []


@pytest.mark.parametrize(
    ("changes", "finding_id", "severity", "path"),
    [
        ({"extra_environment": {"A-B": "1"}}, "GPU-UD-003", "error", "extra_environment.A-B"),
        ({"nccl_environment": {"NCCL_DEBUG": "a\nb"}}, "GPU-UD-003", "error", "nccl_environment.NCCL_DEBUG"),
        ({"extra_environment": {"CITY": "Z\u00fcrich"}}, "GPU-UD-003", "error", "extra_environment.CITY"),
        ({"extra_environment": {"Z\u00dcRICH": "1"}}, "GPU-UD-003", "error", "extra_environment.Z\u00dcRICH"),
        ({"fleet_name": "trainers\u2014a"}, "GPU-UD-003", "error", "fleet_name"),
        ({"metadata_users": ("ubuntu", "$(reboot)")}, "GPU-UD-003", "error", "metadata_users"),
        ({"metadata_users": ("1000 1001",)}, "GPU-UD-003", "error", "metadata_users"),
        ({"nccl_environment": {"NCCL_PROTO": "simple"}}, "GPU-UD-004", "warning", "nccl_environment.NCCL_PROTO"),
        ({"extra_environment": {"RDMAV_FORK_SAFE": "1"}}, "GPU-UD-004", "warning", "extra_environment.RDMAV_FORK_SAFE"),
        ({"user_parts": (UserDataPart(content_type="text/plain", body="x"),)}, "GPU-UD-005", "error", "user_parts[0]"),
        (
            {"user_parts": (UserDataPart(content_type="text/x-shellscript", body="echo x"),)},
            "GPU-UD-005", "error", "user_parts[0]",
        ),
        (
            {"user_parts": (UserDataPart(content_type="text/cloud-config", body="# caf\u00e9"),)},
            "GPU-UD-005", "error", "user_parts[0]",
        ),
    ],
)  # fmt: skip
def test_faults_in_what_the_user_adds(changes: dict[str, Any], finding_id: str, severity: str, path: str) -> None:
    [finding] = check_settings(settings(**changes))
    assert (finding.id, finding.severity.value, finding.path) == (finding_id, severity, path)
    assert finding.fix or finding.allowed


def test_removing_a_harmful_default_is_no_fault() -> None:
    assert check_settings(settings(nccl_environment={"NCCL_PROTO": None})) == []
