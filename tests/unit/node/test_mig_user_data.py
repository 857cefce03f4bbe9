"""What the user data of a node with split GPUs holds, and what it costs."""

from __future__ import annotations

import configparser
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from cdk_gpu_clusters.node.mig import FabricManagerOrder, MigSettings, fabric_manager_drop_in, mig_settings
from cdk_gpu_clusters.node.settings import NodeSettings
from cdk_gpu_clusters.node.software import installed_text
from cdk_gpu_clusters.node.user_data import USER_DATA_LIMIT_BYTES, user_data_size_bytes
from cdk_gpu_clusters.rules.mig import MigLayout, plan_mig
from rendered import rendered

# Eight layouts of seven instances each, the longest text there is.
LONGEST = plan_mig("p4d.24xlarge", [MigLayout(["1g.5gb+me", *["1g.5gb"] * 6])] * 7 + [MigLayout(["1g.5gb"] * 7)])

LARGEST: dict[str, Any] = {
    "fleet_name": "f" * 60,
    "region": "ap-southeast-2",
    "launch_hook_name": "h" * 80,
    "terminate_hook_name": "t" * 80,
    "log_group_name": "/gpu-clusters/" + "l" * 80,
    "accelerator_kind": "gpu",
    "accelerator_count": 8,
    "nccl_environment": {"NCCL_DEBUG": "WARN", "FI_EFA_USE_HUGE_PAGE": "0"},
    "extra_environment": {"HF_HOME": "/fsx/huggingface", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1"},
    "huge_pages": 5128,
    "mig": mig_settings(LONGEST),
}
PRINTED = "printf %s "


def settings(**changes: Any) -> NodeSettings:
    mig = mig_settings(plan_mig("p4d.24xlarge", MigLayout("19,19,9")))
    return NodeSettings(**{"fleet_name": "f", "accelerator_kind": "gpu", "accelerator_count": 8, "mig": mig, **changes})


def config(document: str) -> dict[str, Any]:
    body = document.partition("Content-Type: text/cloud-config\n\n")[2].partition("\n--gpu-cluster-node")[0]
    parsed: dict[str, Any] = YAML(typ="safe").load(body)
    return parsed


def unit() -> configparser.ConfigParser:
    """The unit, with repeated keys joined."""
    lines: dict[str, dict[str, str]] = {}
    for line in installed_text("files/gpu-mig.service").splitlines():
        if line.startswith("["):
            section = lines.setdefault(line.strip("[]"), {})
        elif "=" in line:
            key, _, value = line.partition("=")
            section[key] = f"{section.get(key, '')} {value}".strip()
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_dict(lines)
    return parser


def test_largest_user_data_with_mig_leaves_room_for_the_users_own() -> None:
    size = user_data_size_bytes(rendered(NodeSettings(**LARGEST)))
    assert USER_DATA_LIMIT_BYTES - size > 2_800, size


def test_nodes_with_whole_gpus_carry_none_of_it() -> None:
    with_mig, without = (rendered(settings(mig=mig)) for mig in (settings().mig, None))
    assert "gpu-mig" not in without
    assert user_data_size_bytes(with_mig) - user_data_size_bytes(without) > 1000


def test_bootcmd_installs_the_settings_then_enables_and_starts_the_unit_on_the_first_boot(
    tmp_path: Path,
) -> None:
    [start] = config(rendered(settings()))["bootcmd"]
    assert start[:5] == ["cloud-init-per", "instance", "gpu-node", "sh", "-c"]
    calls = tmp_path / "calls"
    script = start[5].replace(" /etc/", f" {tmp_path}/etc/").replace(">/etc/", f">{tmp_path}/etc/")
    script = script.replace("-xzC / ", f"-xzC {tmp_path} ")
    subprocess.run(["sh", "-c", f'systemctl() {{ echo "$@" >>{calls}; }}; {script}'], check=True)
    assert (tmp_path / "etc/default/mig").read_text() == (
        'MIG_PARTITION="3g.20gb,1g.5gb,1g.5gb"\nMIG_GPU_COUNT=8\nMIG_MINIMUM_DRIVER=450.80.02\n'
    )
    assert calls.read_text().splitlines() == ["enable gpu-mig", "start --no-block gpu-mig gpu-software"]
    drop_in = tmp_path / "etc/systemd/system/gpu-mig.service.d/fabric-manager.conf"
    assert drop_in.read_text() == "[Unit]\nAfter=nvidia-fabricmanager.service\n"


def test_layout_is_readable_in_the_document() -> None:
    assert "3g.20gb,1g.5gb,1g.5gb" in rendered(settings())


def test_settings_file_reads_the_same_in_a_shell(tmp_path: Path) -> None:
    partition = "19,19;off;1g.24gb+me.all,1g.24gb-me"
    mig = MigSettings(partition=partition, gpu_count=3, device_count=4, whole_gpu_count=1)
    [[*_, command]] = config(rendered(settings(mig=mig)))["bootcmd"]
    text = next(part for part in command.split(PRINTED)[1:] if part.startswith("'MIG"))
    shown = subprocess.run(
        ["bash", "-euc", f'. <({PRINTED}{text.partition(" >")[0]}); printf %s "$MIG_PARTITION"'],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert shown.stdout == partition


@pytest.mark.parametrize("text", ["", "1g.5gb; rm -rf /", "$(x)", '19"', "19\n19", "1g 5gb"])
def test_text_that_is_no_partition_never_reaches_a_shell(text: str) -> None:
    with pytest.raises(ValueError, match="not a MIG_PARTITION"):
        MigSettings(partition=text, gpu_count=1, device_count=1)


def test_text_that_is_no_driver_release_never_reaches_a_shell() -> None:
    with pytest.raises(ValueError, match="not a driver release"):
        MigSettings(partition="19", gpu_count=1, device_count=1, minimum_driver="510; reboot")


@pytest.mark.parametrize(
    ("order", "line"), [(FabricManagerOrder.AFTER, "After"), (FabricManagerOrder.BEFORE, "Before")]
)
def test_order_relative_to_the_fabric_manager_is_a_property(order: FabricManagerOrder, line: str) -> None:
    mig = mig_settings(LONGEST, fabric_manager=order)
    assert f"{line}=nvidia-fabricmanager.service" in fabric_manager_drop_in(mig)
    assert "Requires" not in fabric_manager_drop_in(mig)


def test_unit_comes_after_the_driver_and_before_everything_that_opens_a_gpu() -> None:
    section = unit()["Unit"]
    after, before = section["after"].split(), section["before"].split()
    assert {"nvidia-kmod-load.service", "nvidia-persistenced.service"} <= set(after)
    assert {
        "nvidia-dcgm.service", "dcgm-exporter.service", "kubelet.service", "nodeadm-run.service",
        "slurmd.service", "docker.service", "containerd.service", "gpu-node-boot.service",
    } <= set(before)  # fmt: skip
    assert set(after).isdisjoint(before)
    assert not any("fabricmanager" in name or "cloud-final" in name for name in (*after, *before))


def test_failed_unit_keeps_the_node_out_of_its_cluster() -> None:
    parsed = unit()
    assert set(parsed["Install"]["requiredby"].split()) == {"nodeadm-run.service", "slurmd.service"}
    assert parsed["Service"]["type"] == "oneshot"
    # Waits of the script: the driver, cloud-init, the reboot.
    assert int(parsed["Service"]["timeoutstartsec"]) > 3 * 300


def test_node_expects_its_devices_and_offers_them_as_slots() -> None:
    [environment] = [
        file["content"]
        for file in config(rendered(settings()))["write_files"]
        if file["path"] == "/etc/gpu-cluster/node.env"
    ]
    assert "GPU_MIG_COUNT=24\n" in environment
    assert "GPU_SLOTS=24\n" in environment
    assert "GPU_ACCELERATOR_COUNT=8\n" in environment
    mixed = mig_settings(plan_mig("p4d.24xlarge", [MigLayout("9,9")] * 4 + [MigLayout.whole_gpu()] * 4))
    assert "GPU_SLOTS=12\n" in rendered(settings(mig=mixed))
