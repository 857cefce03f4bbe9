"""The boot script that splits GPUs, run for real against a stateful fake of nvidia-smi."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import cdk_gpu_clusters.catalogue
from cdk_gpu_clusters.node.mig import MigSettings, mig_settings
from cdk_gpu_clusters.rules.mig import MigLayout, plan_mig
from fakes.nvidia_smi import CLIENT, Handler, serve

FAKES = Path(__file__).resolve().parents[2] / "support" / "fakes"
DATA = Path(cdk_gpu_clusters.catalogue.__file__).parent / "data" / "mig_profiles.json"
APPLY = "usr/local/libexec/gpu-cluster/mig-apply"
# Once a reboot is asked for, the next sleep is the one that the shutdown ends.
SLEEP = """#!/bin/bash
if [[ -e $FAKE_REBOOT ]]; then kill -TERM $PPID; fi
exec /bin/sleep 0.02
"""


class MigNode:
    """A node with GPUs that can be split; `state` is the driver's."""

    def __init__(self, node: Any, address: str, key: str = "A100-40GB", gpus: int = 2) -> None:
        self.node = node
        self.units = node.root.parent / "units"
        self.state = Handler.state = {}
        self.rebooting = node.root.parent / "rebooting"
        row = json.loads(DATA.read_text())["gpus"].get(key, {"model": key, "profiles": []})
        ampere = key.startswith("A100")
        self.write(
            model=row["model"], profiles=row["profiles"], mode_change="now", keeps_mode=ampere, reset_needs="up",
            policy="highest", driver="595.64", late=0, busy={}, refuses=[], log=[], boot_id="boot-1", units=str(self.units),
            boot_id_file=str(node.root / "proc/sys/kernel/random/boot_id"),
            gpus=[{"mode": False, "pending": False, "instances": []} for _ in range(gpus)],
        )  # fmt: skip
        self.running("nvidia-fabricmanager")
        node.tool("nvidia-smi", CLIENT)
        node.tool("systemctl", (FAKES / "systemctl.sh").read_text())
        node.tool("sleep", SLEEP)
        node.write("run/cloud-init/result.json", "{}")
        node.environment |= {
            "FAKE_NVIDIA_SMI": address,
            "FAKE_UNITS": str(self.units),
            "FAKE_REBOOT": str(self.rebooting),
            "MIG_DRIVER_WAIT": "2",
            "MIG_PATIENCE": "0",
        }

    def write(self, **changes: Any) -> None:
        self.state.update(changes)

    def running(self, *units: str) -> None:
        self.units.write_text("".join(f"{unit}\n" for unit in units))

    @property
    def orders(self) -> list[str]:
        """What systemctl was told, without questions."""
        log = Path(f"{self.units}.log")
        lines = log.read_text().splitlines() if log.exists() else []
        return [line for line in lines if not line.startswith("is-")]

    def layouts(self) -> list[list[str]]:
        """Profiles of each GPU as they are, sorted."""
        names = {row["id"]: row["name"] for row in self.state["profiles"]}
        return [sorted(names[each["profile"]] for each in gpu["instances"]) for gpu in self.state["gpus"]]

    def requested(self, partition: str, count: int | None = None, *, minimum_driver: str = "") -> None:
        known = "" if count is None else f"MIG_GPU_COUNT={count}\n"
        known += f"MIG_MINIMUM_DRIVER={minimum_driver}\n" if minimum_driver else ""
        self.node.write("etc/default/mig", f'MIG_PARTITION="{partition}"\n{known}')

    def apply(self) -> tuple[str, str]:
        """One run of the script: the state and the reason of its result file."""
        done: subprocess.CompletedProcess[str] = self.node.run(APPLY)
        result = json.loads((self.node.root / "var/lib/gpu-cluster/mig.json").read_text())
        assert (done.returncode == 0) is (result["state"] == "ok"), done
        assert result["boot_id"] == (self.node.root / "proc/sys/kernel/random/boot_id").read_text().strip()
        return result["state"], result["reason"]

    def reboot(self) -> None:
        assert self.rebooting.exists()
        self.rebooting.unlink()
        self.running("nvidia-fabricmanager")
        count = int(self.state["boot_id"].removeprefix("boot-"))
        self.node.write("proc/sys/kernel/random/boot_id", f"boot-{count + 1}\n")

    def calls(self, verb: str) -> list[str]:
        return [call for call in self.state["log"] if verb in call]


SETTINGS = MigSettings(partition="1g.5gb", gpu_count=2, device_count=2)


@pytest.fixture(scope="module")
def driver() -> Iterator[str]:
    with serve() as address:
        yield address


@pytest.fixture
def mig_node(node: Any, driver: str) -> MigNode:
    """Two A100-40GB that nothing has touched."""
    node.install(accelerator_kind="gpu", accelerator_count=2, mig=SETTINGS)
    return MigNode(node, driver)


@pytest.fixture
def hopper(node: Any, driver: str) -> MigNode:
    """Two H100-80GB."""
    node.install(accelerator_kind="gpu", accelerator_count=2, mig=SETTINGS)
    return MigNode(node, driver, "H100-80GB")


def test_first_boot_enables_the_mode_and_creates_the_layout(mig_node: MigNode) -> None:
    mig_node.requested("3g.20gb,2g.10gb,1g.5gb,1g.5gb", count=2)
    assert mig_node.apply() == ("ok", "8 MIG devices")
    assert mig_node.layouts() == [["1g.5gb", "1g.5gb", "2g.10gb", "3g.20gb"]] * 2
    assert not mig_node.rebooting.exists()
    assert not mig_node.calls("--gpu-reset")


def test_mode_that_is_on_already_is_left_alone(mig_node: MigNode) -> None:
    mig_node.write(gpus=[{"mode": True, "pending": True, "instances": []} for _ in range(2)])
    mig_node.requested("7g.40gb")
    assert mig_node.apply()[0] == "ok"
    assert not mig_node.calls("-mig ")
    assert mig_node.layouts() == [["7g.40gb"]] * 2


@pytest.mark.parametrize("again", ["2g.10gb,1g.5gb", "1g.5gb,2g.10gb", "14,19", "19,2g.10gb"])
def test_layout_that_is_there_is_not_made_again_whatever_it_is_called(mig_node: MigNode, again: str) -> None:
    mig_node.requested("2g.10gb,1g.5gb")
    mig_node.apply()
    mig_node.write(log=[])
    mig_node.requested(again)
    assert mig_node.apply() == ("ok", "4 MIG devices")
    assert not mig_node.calls("-cgi")
    assert not mig_node.calls("-dgi")


def test_other_layout_replaces_the_old_one_on_the_gpus_that_differ(mig_node: MigNode) -> None:
    mig_node.requested("1g.5gb;3g.20gb,3g.20gb")
    mig_node.apply()
    mig_node.write(log=[])
    mig_node.requested("2g.10gb,2g.10gb;9,9")
    assert mig_node.apply()[0] == "ok"
    assert mig_node.layouts() == [["2g.10gb", "2g.10gb"], ["3g.20gb", "3g.20gb"]]
    assert mig_node.calls("-cgi") == ["-i 0 mig -cgi 14,14 -C"]


def test_instance_without_a_compute_instance_is_no_device_and_is_made_again(mig_node: MigNode) -> None:
    mig_node.requested("2g.10gb")
    mig_node.apply()
    gpus = mig_node.state["gpus"]
    gpus[1]["instances"][0]["device"] = False
    mig_node.write(gpus=gpus, log=[])
    assert mig_node.apply() == ("ok", "2 MIG devices")
    assert mig_node.calls("-cgi") == ["-i 1 mig -cgi 14 -C"]


def test_every_gpu_has_its_own_layout_and_one_stays_whole(node: Any, driver: str) -> None:
    settings = MigSettings(partition="7g.40gb", gpu_count=3, device_count=10)
    node.install(accelerator_kind="gpu", accelerator_count=3, mig=settings)
    mig_node = MigNode(node, driver, gpus=3)
    mig_node.requested("1g.5gb,1g.5gb,1g.5gb,1g.5gb,1g.5gb,1g.5gb,1g.5gb; off; 3g.20gb,1g.10gb,1g.5gb+me", count=3)
    assert mig_node.apply() == ("ok", "10 MIG devices")
    assert mig_node.layouts() == [["1g.5gb"] * 7, [], ["1g.10gb", "1g.5gb+me", "3g.20gb"]]
    assert [gpu["mode"] for gpu in mig_node.state["gpus"]] == [True, False, True]


def test_gpu_that_is_to_be_whole_again_is_emptied_and_switched_off(mig_node: MigNode) -> None:
    mig_node.requested("1g.5gb,1g.5gb")
    mig_node.apply()
    mig_node.requested("1g.5gb,1g.5gb;off")
    assert mig_node.apply() == ("ok", "2 MIG devices")
    assert [gpu["mode"] for gpu in mig_node.state["gpus"]] == [True, False]


def test_pending_mode_is_made_current_by_a_reset_while_the_fabric_manager_runs(mig_node: MigNode) -> None:
    mig_node.write(mode_change="reset")
    mig_node.requested("3g.20gb")
    assert mig_node.apply() == ("ok", "2 MIG devices")
    assert mig_node.calls("--gpu-reset") == ["--gpu-reset -i 0,1"]
    assert mig_node.orders == []


def test_what_holds_an_ampere_gpu_is_released_for_the_reset(mig_node: MigNode) -> None:
    """NVIDIA/gpu-operator issue 118: the daemon holds the GPU; NVIDIA/mig-parted issue 181: so does nvidia_drm."""
    calls = mig_node.node.root / "module-calls"
    for tool in ("rmmod", "modprobe"):
        mig_node.node.tool(tool, f'#!/bin/sh\necho {tool} "$@" >>{calls}\n')
    mig_node.node.write("sys/module/nvidia_drm/refcnt", "0\n")
    mig_node.running("nvidia-fabricmanager", "nvidia-persistenced")
    mig_node.write(mode_change="reset")
    mig_node.requested("3g.20gb")
    assert mig_node.apply() == ("ok", "2 MIG devices")
    assert mig_node.orders == ["stop nvidia-persistenced", "start nvidia-persistenced"]
    assert calls.read_text().splitlines() == ["rmmod nvidia_drm", "modprobe nvidia_drm"]


def test_hopper_keeps_the_daemon_without_which_it_forgets_the_mode(hopper: MigNode) -> None:
    hopper.running("nvidia-fabricmanager", "nvidia-persistenced")
    hopper.write(mode_change="reset")
    hopper.requested("3g.40gb")
    assert hopper.apply()[0] == "ok"
    assert hopper.orders == []


def test_layout_without_cuda_gets_one_reboot_and_then_fails_the_node(mig_node: MigNode) -> None:
    """Azure/AgentBaker pull request 2508: after a reset CUDA_ERROR_NOT_INITIALIZED, and work went on on the CPU."""
    words = "CUDA does not start: MIG-0-0: cuInit: CUDA_ERROR_NOT_INITIALIZED (3)"
    mig_node.node.tool("gpunode", f"#!/bin/sh\n[ $1 = cuda ] && echo '{words}' && exit 3\n")
    mig_node.requested("1g.5gb")
    assert mig_node.apply() == ("rebooting", words)
    mig_node.reboot()
    state, reason = mig_node.apply()
    assert (state, reason) == ("failed", f"{words}, also after a reboot")
    assert mig_node.orders.count("--no-block reboot") == 1


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (0, "CUDA starts on a slice of 2 GPUs"),
        (3, "CUDA does not start: MIG-0-0: cuInit: CUDA_ERROR_SYSTEM_NOT_READY (802)"),
        # The software is fetched and unpacked beside it.
        (1, "ModuleNotFoundError: No module named 'gpunode.watch.service'"),
        (127, "gpunode: command not found"),
        (75, "libcuda.so.1: cannot open shared object file"),
    ],
)
def test_what_the_boot_checks_judge_costs_no_reboot(mig_node: MigNode, status: int, words: str) -> None:
    mig_node.node.tool("gpunode", f"#!/bin/sh\necho '{words}'\nexit {status}\n")
    mig_node.requested("1g.5gb")
    assert mig_node.apply()[0] == "ok"


def test_reset_that_the_fabric_manager_hinders_is_done_without_it(hopper: MigNode) -> None:
    hopper.write(mode_change="reset", reset_needs="down")
    hopper.requested("3g.40gb")
    assert hopper.apply() == ("ok", "2 MIG devices")
    assert hopper.orders == ["stop nvidia-fabricmanager", "start --no-block nvidia-fabricmanager"]


def test_pending_mode_that_only_a_reboot_helps_gets_one_reboot(mig_node: MigNode) -> None:
    mig_node.write(mode_change="reboot")
    mig_node.requested("1g.10gb,1g.10gb")
    state, reason = mig_node.apply()
    assert (state, reason.split(" is pending")[0]) == ("rebooting", "MIG mode of GPU 0, 1")
    assert mig_node.orders == ["stop nvidia-fabricmanager", "--no-block reboot"]
    assert mig_node.layouts() == [[], []]
    assert (mig_node.node.root / "var/lib/gpu-cluster/rebooted").exists()
    mig_node.reboot()
    assert mig_node.apply() == ("ok", "4 MIG devices")
    assert len(mig_node.orders) == 2
    # The reboot that helped is forgotten: a later one, on another host, may be needed as well.
    assert not (mig_node.node.root / "var/lib/gpu-cluster/mig-reboot").exists()


def test_mode_that_stays_pending_for_ever_costs_one_reboot_and_fails_the_node(mig_node: MigNode) -> None:
    mig_node.write(mode_change="never")
    mig_node.requested("1g.10gb")
    assert mig_node.apply()[0] == "rebooting"
    mig_node.reboot()
    for _ in range(2):
        state, reason = mig_node.apply()
        assert state == "failed"
        assert "also after a reboot" in reason
        assert mig_node.units.read_text() == "nvidia-fabricmanager\n"
    assert mig_node.orders.count("--no-block reboot") == 1


def test_reboot_that_does_not_come_is_a_failure(mig_node: MigNode) -> None:
    del mig_node.node.environment["FAKE_REBOOT"]
    mig_node.node.tool("sleep", "#!/bin/sh\nexec /bin/sleep 0.02\n")
    mig_node.write(mode_change="reboot")
    mig_node.requested("1g.10gb")
    state, reason = mig_node.apply()
    assert (state, reason.endswith("the reboot did not come")) == ("failed", True)


def test_reboot_waits_for_cloud_init_which_would_not_repeat_a_script_cut_short(mig_node: MigNode) -> None:
    waiting = mig_node.node.root / "run/cloud-init/result.json"
    waiting.unlink()
    mig_node.node.environment["MIG_PATIENCE"] = "20"
    mig_node.node.tool("sleep", f"#!/bin/sh\n[ ! -e {mig_node.rebooting} ] || kill -TERM $PPID\n: >{waiting}\n")
    mig_node.write(mode_change="reboot")
    mig_node.requested("1g.10gb")
    assert mig_node.apply()[0] == "rebooting"
    assert waiting.exists()


def test_hopper_forgets_everything_at_a_reboot_and_gets_it_again(hopper: MigNode) -> None:
    hopper.requested("4g.40gb,3g.40gb")
    hopper.apply()
    hopper.rebooting.touch()
    hopper.reboot()
    assert hopper.apply() == ("ok", "4 MIG devices")
    assert len(hopper.calls("-mig 1")) == 4


def test_gpu_that_creates_nothing_fails_with_what_the_driver_said(mig_node: MigNode) -> None:
    mig_node.write(refuses=[1])
    mig_node.requested("2g.10gb")
    state, reason = mig_node.apply()
    assert state == "failed"
    assert reason.startswith("GPU 1: 2g.10gb is wanted")
    assert "Insufficient Resources" in reason
    assert reason in (mig_node.node.root / "dev/console").read_text()


@pytest.mark.parametrize("policy", ["highest", "lowest"])
@pytest.mark.parametrize(
    "layout", ["3g.20gb,2g.10gb,1g.5gb,1g.5gb", "3g.20gb,2g.10gb,2g.10gb", "4g.20gb,1g.10gb,1g.5gb,1g.5gb"]
)
def test_layout_comes_out_whichever_place_the_driver_chooses(mig_node: MigNode, policy: str, layout: str) -> None:
    mig_node.write(policy=policy)
    mig_node.requested(layout)
    assert mig_node.apply()[0] == "ok"
    assert mig_node.layouts() == [sorted(layout.split(","))] * 2


def test_gpu_in_use_is_not_touched_neither_for_its_mode_nor_for_its_layout(mig_node: MigNode) -> None:
    mig_node.write(busy={"1": "/usr/bin/python3"})
    mig_node.requested("2g.10gb")
    state, reason = mig_node.apply()
    assert state == "failed"
    assert reason.startswith("GPU 1 is in use by 4711, /usr/bin/python3")
    assert not mig_node.calls("-mig ")
    mig_node.write(busy={})
    mig_node.apply()
    mig_node.write(busy={"0": "vllm"}, log=[])
    mig_node.requested("1g.5gb;2g.10gb")
    assert mig_node.apply()[1].startswith("GPU 0 is in use by 4711, vllm")
    assert mig_node.layouts() == [["2g.10gb"], ["2g.10gb"]]
    assert not mig_node.calls("-d")


def test_services_that_hold_the_gpus_are_stopped_for_a_mode_change_and_started_again(
    mig_node: MigNode,
) -> None:
    mig_node.running("nvidia-dcgm", "nvidia-persistenced", "nvidia-fabricmanager")
    mig_node.requested("1g.5gb")
    mig_node.apply()
    assert mig_node.orders == ["stop nvidia-dcgm", "start --no-block nvidia-dcgm"]
    mig_node.requested("2g.10gb")
    mig_node.apply()
    assert len(mig_node.orders) == 2, "another layout in the same mode needs no stop"


@pytest.mark.parametrize(("enabled", "told"), [("nvidia-cdi-refresh\n", 1), ("", 0)])
def test_container_runtimes_are_told_the_new_slices(mig_node: MigNode, enabled: str, told: int) -> None:
    Path(f"{mig_node.units}.enabled").write_text(enabled)
    mig_node.requested("1g.5gb")
    mig_node.apply()
    assert mig_node.orders == ["start --no-block nvidia-cdi-refresh"] * told


@pytest.mark.parametrize(
    ("partition", "reason"),
    [
        ("1g.5gb;1g.5gb;1g.5gb", "MIG_PARTITION has 3 layouts for 2 GPUs"),
        ("1g.5gb;", "MIG_PARTITION has 1 layouts"),
        ("1g.5gb;;", "MIG_PARTITION leaves the layout of GPU 1 empty"),
        ("1g.6gb", "GPU 0: no profile 1g.6gb, only 1g.5gb 1g.5gb+me 1g.10gb"),
        ("", "/etc/default/mig sets no MIG_PARTITION"),
    ],
)
def test_wish_that_cannot_be_meant_is_refused(mig_node: MigNode, partition: str, reason: str) -> None:
    mig_node.requested(partition)
    state, said = mig_node.apply()
    if partition == "1g.5gb;":  # a list that ends in a semicolon is one layout
        assert (state, mig_node.layouts()) == ("ok", [["1g.5gb"], ["1g.5gb"]])
    else:
        assert state == "failed"
        assert said.startswith(reason)


def test_node_without_the_settings_file_fails(mig_node: MigNode) -> None:
    (mig_node.node.root / "etc/default/mig").unlink()
    assert mig_node.apply() == ("failed", "/etc/default/mig sets no MIG_PARTITION")


def test_gpu_without_mig_fails_the_node(node: Any, driver: str) -> None:
    node.install(accelerator_kind="gpu", accelerator_count=2, mig=SETTINGS)
    mig_node = MigNode(node, driver, "NVIDIA A10G")
    assert mig_node.apply() == ("failed", "GPU 0 cannot be split with MIG")
    assert mig_node.orders == []


def test_late_driver_is_waited_for(mig_node: MigNode) -> None:
    mig_node.node.environment["MIG_DRIVER_WAIT"] = "60"
    mig_node.write(late=5)
    mig_node.requested("1g.5gb", count=2)
    assert mig_node.apply() == ("ok", "2 MIG devices")


@pytest.mark.parametrize(("changes", "count"), [({"late": -1}, 2), ({}, 8)], ids=["no driver", "GPUs missing"])
def test_driver_that_never_comes_or_gpus_that_are_missing_end_at_the_deadline(
    mig_node: MigNode, changes: dict[str, Any], count: int
) -> None:
    mig_node.node.environment["MIG_DRIVER_WAIT"] = "0"
    mig_node.write(**changes)
    mig_node.requested("1g.5gb", count=count)
    state, reason = mig_node.apply()
    assert state == "failed"
    assert reason.startswith(f"driver: {0 if changes else 2} of {count} GPUs answer")


@pytest.mark.parametrize(
    ("release", "minimum", "fits"),
    [
        ("595.64", "510", True),
        ("510.39.01", "510", True),
        ("450.80.02", "450.80.02", True),
        ("1000.1", "595.58.03", True),
        ("470.256.02", "510", False),
        ("595.58.02", "595.58.03", False),
        ("95.64", "510", False),
    ],
)
def test_driver_older_than_the_layout_needs_fails_before_anything_is_changed(
    mig_node: MigNode, release: str, minimum: str, fits: bool
) -> None:
    mig_node.write(driver=release)
    mig_node.requested("4g.20gb,3g.20gb", minimum_driver=minimum)
    if fits:
        assert mig_node.apply() == ("ok", "4 MIG devices")
        return
    said = f"driver: {release} is too old, this layout needs {minimum}"
    assert mig_node.apply() == ("failed", said)
    assert not mig_node.calls("-mig ")


def test_plan_reaches_the_gpus_through_the_user_data(node: Any, driver: str) -> None:
    layouts = [MigLayout(["1g.10gb"] * 7), *[MigLayout("9,14,19,19")] * 6, MigLayout.whole_gpu()]
    plan = plan_mig("p5.48xlarge", layouts)
    node.install(accelerator_kind="gpu", accelerator_count=8, mig=mig_settings(plan))
    mig_node = MigNode(node, driver, "H100-80GB", gpus=8)
    assert mig_node.apply() == ("ok", f"{plan.slices_per_node} MIG devices")
    assert mig_node.layouts() == [sorted(p.name for p in gpu.profiles) for gpu in plan.gpus]
    status, result = node.boot()
    assert (status, result["state"]) == (0, "ready")
    assert [event["reason"] for event in result["events"] if event["stage"] == "mig"][-1] == "31 of 31 MIG devices"


def test_node_is_not_ready_while_its_gpus_are_not_split(mig_node: MigNode) -> None:
    boot = mig_node.node.boot
    mig_node.node.write("proc/uptime", "900.00 1.00\n")
    assert boot()[1]["reason"] == "mig: gpu-mig has not finished: not started"
    mig_node.requested("1g.6gb")
    mig_node.apply()
    assert boot()[1]["reason"].startswith("mig: GPU 0: no profile 1g.6gb")
    mig_node.requested("1g.5gb,1g.5gb")
    mig_node.apply()
    assert boot()[1]["reason"] == "mig: 4 of 2 MIG devices"
    mig_node.requested("1g.5gb")
    mig_node.apply()
    assert boot()[0] == 0
    mig_node.node.write("proc/sys/kernel/random/boot_id", "boot-2\n")
    assert boot()[1]["reason"] == "mig: gpu-mig has not finished: not started"


def test_a_slow_nvidia_smi_gets_no_signal_and_no_second_one_is_started(mig_node: MigNode, tmp_path: Path) -> None:
    mig_node.requested("1g.5gb", count=2)
    log = tmp_path / "log"
    mig_node.node.tool(
        "nvidia-smi",
        f"#!/bin/bash\ntrap 'echo signal >>{log}' TERM INT HUP\necho started >>{log}\n"
        f"for _ in {{1..30}}; do /bin/sleep 0.1; done\necho ended >>{log}\n",
    )
    mig_node.node.environment |= {"MIG_SMI_WAIT": "1", "MIG_DRIVER_WAIT": "0"}
    state, reason = mig_node.apply()
    assert state == "failed"
    assert "0 of 2 GPUs answer" in reason
    deadline = time.monotonic() + 30
    while "ended" not in log.read_text() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert log.read_text().split() == ["started", "ended"]
