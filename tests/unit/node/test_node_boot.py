"""The boot checks and the launching hook, run for real against a fake account."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
from typing import Any

import pytest

from cdk_gpu_clusters.node.gpunode.boot.stages import stages_of
from cdk_gpu_clusters.node.gpunode.node import Aws, Metadata, Node, Settings
from cdk_gpu_clusters.node.settings import NodeWatch, WatchMode
from cdk_gpu_clusters.node.user_data import CHECK_LINES
from fakes import gpu_health

INSTANCE = "i-0123456789abcdef0"
READY, FAILED = 0, 1


def states(result: dict[str, Any], stage: str) -> list[str]:
    return [event["state"] for event in result["events"] if event["stage"] == stage]


def test_ready_node_checks_everything_in_order_and_continues_its_launch(gpu_node: Any, gpu_settings: Any) -> None:
    gpu_node.install(**gpu_settings)
    status, result = gpu_node.boot()
    assert (status, result["state"], result["first_boot"], result["boot_id"]) == (
        READY,
        "ready",
        True,
        "boot-1",
    )
    passed = [event["stage"] for event in result["events"] if event["state"] == "ok"]
    assert passed == [
        "driver",
        "cuda",
        "efa",
        "limits",
        "user-data",
        "containers",
        "verification",
        "dcgm",
        "hook",
    ]
    [action] = gpu_node.account.made("complete-lifecycle-action")
    assert action == {
        "--lifecycle-hook-name": ["ready"],
        "--auto-scaling-group-name": ["trainers-asg"],
        "--instance-id": ["i-0123456789abcdef0"],
        "--lifecycle-action-result": ["CONTINUE"],
        "--output": ["json"],
    }
    assert [event["stage"] for event in gpu_node.account.logged] == [event["stage"] for event in result["events"]]
    assert gpu_node.account.streams == [("/gpu-cluster/trainers", "i-0123456789abcdef0")]


@pytest.mark.parametrize(("nvlink", "waits"), [("900", True), ("", False)])
def test_the_fabric_manager_counts_only_where_there_is_something_to_manage(nvlink: str, waits: bool) -> None:
    """EKS's image starts it on every type, and it fails where there is no NVSwitch."""
    settings = Settings({"accelerator": "gpu", "accelerator_count": "1", "nvlink": nvlink})
    node = Node(settings, Metadata(), INSTANCE, Aws("us-east-1"))
    assert ("fabric-manager" in [stage.name for stage in stages_of(node)]) is waits


@pytest.mark.parametrize(("orchestrator", "waits"), [("eks", True), ("hyperpod-slurm", True), ("hyperpod-eks", False)])
def test_containers_are_not_waited_for_where_they_start_after_the_checks(orchestrator: str, waits: bool) -> None:
    node = Node(Settings({"orchestrator": orchestrator}), Metadata(), INSTANCE, Aws("us-east-1"))
    assert ("containers" in [stage.name for stage in stages_of(node)]) is waits


def test_driver_that_comes_late_is_waited_for(gpu_node: Any, gpu_settings: Any) -> None:
    gpu_node.gpus("GPU-aaaa, 1 MiB", "GPU-bbbb, 1 MiB", late=2)
    gpu_node.install(**gpu_settings)
    status, result = gpu_node.boot()
    assert (status, states(result, "driver")) == (READY, ["started", "waiting", "ok"])


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (["GPU-aaaa, 81559 MiB"], "driver: 1 of 2 GPUs answer"),
        (
            ["GPU-aaaa, 81559 MiB", "GPU-bbbb, [GPU is lost]"],
            "driver: 1 of 2 GPUs answer; 1, GPU-bbbb, [GPU is lost]",
        ),
    ],
    ids=["missing", "lost"],
)
def test_node_without_all_its_gpus_says_why_and_then_abandons(
    gpu_node: Any, gpu_settings: Any, rows: list[str], reason: str
) -> None:
    gpu_node.gpus(*rows)
    gpu_node.install(**gpu_settings, boot_deadline_seconds=100)
    status, result = gpu_node.boot()
    assert (status, result["state"], result["reason"]) == (FAILED, "failed", reason)
    assert reason in (gpu_node.root / "dev/console").read_text()
    assert [event["reason"] for event in gpu_node.account.logged if event["stage"] == "node"][-1] == reason
    order = [name for name, _ in gpu_node.account.calls]
    assert order.index("put-log-events") < order.index("complete-lifecycle-action")
    [action] = gpu_node.account.made("complete-lifecycle-action")
    assert action["--lifecycle-action-result"] == ["ABANDON"]


def test_too_few_efa_devices_fail_the_node(gpu_node: Any, gpu_settings: Any) -> None:
    gpu_node.efa_devices("ibp16s0")  # an NVLink controller of P6-B200
    gpu_node.install(**{**gpu_settings, "efa_interface_count": 4}, boot_deadline_seconds=100)
    assert gpu_node.boot()[1]["reason"] == "efa: 2 of 4 EFA devices"


def test_libfabric_without_the_efa_provider_fails_the_node(gpu_node: Any, gpu_settings: Any) -> None:
    gpu_node.tool("fi_info", "#!/bin/sh\necho 'fi_getinfo: -61 (No data available)' >&2\nexit 61\n")
    gpu_node.install(**gpu_settings, boot_deadline_seconds=100)
    assert gpu_node.boot()[1]["reason"] == "efa: fi_info -p efa finds no provider"


def test_neuron_node_counts_its_devices(node: Any) -> None:
    node.tool("neuron-ls", """#!/bin/sh\necho '[{"neuron_device": 0}, {"neuron_device": 1}]'\n""")
    node.install(accelerator_kind="neuron", accelerator_count=2)
    assert node.boot()[1]["state"] == "ready"
    node.install(accelerator_kind="neuron", accelerator_count=16, boot_deadline_seconds=100)
    assert node.boot()[1]["reason"] == "driver: 2 of 16 Neuron devices answer"


def test_cpu_node_has_no_accelerator_stages_and_no_calls_without_a_hook(node: Any) -> None:
    node.install()
    status, result = node.boot()
    assert (status, states(result, "driver"), states(result, "efa")) == (READY, [], [])
    assert node.account.calls == []


def test_failed_script_of_the_user_fails_the_node_at_once(node: Any) -> None:
    errors = ["('scripts_user', RuntimeError('Runparts: 1 failures (part-003) in 2 attempted commands'))"]
    node.write("run/cloud-init/result.json", json.dumps({"v1": {"errors": errors}}))
    node.install(launch_hook_name="ready")
    status, result = node.boot()
    assert (status, states(result, "user-data")) == (FAILED, ["started", "failed"])
    assert result["reason"] == "user-data: a shell script of the user data failed"
    assert "/var/log/cloud-init-output.log" in result["fix"]
    assert result["fix"] in (node.root / "dev/console").read_text()


def test_huge_pages_are_applied_and_counted(node: Any) -> None:
    pages = node.write("proc/sys/vm/nr_hugepages", "0\n")
    node.tool("sysctl", f"#!/bin/sh\ngrep -o '[0-9]*$' \"$2\" >{pages}\n")
    node.install(huge_pages=5128)
    assert node.boot()[1]["state"] == "ready"
    node.tool("sysctl", f"#!/bin/sh\necho 17 >{pages}\n")
    assert "17 huge pages of 5128" in node.boot()[1]["reason"]


def test_calls_denied_at_first_are_repeated(gpu_node: Any, gpu_settings: Any) -> None:
    denied = {"describe-auto-scaling-instances": 2, "complete-lifecycle-action": 1}
    gpu_node.account.denied = denied
    gpu_node.install(**gpu_settings)
    status, result = gpu_node.boot()
    assert (status, states(result, "hook")) == (READY, ["ok"])
    assert len(gpu_node.account.made("complete-lifecycle-action")) == 2


def test_calls_denied_for_ever_end_with_the_reason_in_the_journal(gpu_node: Any, gpu_settings: Any) -> None:
    gpu_node.account.denied = {"complete-lifecycle-action": 1000}
    gpu_node.write("proc/uptime", "400.00 1.00\n")
    gpu_node.install(**gpu_settings, boot_deadline_seconds=100)
    result = gpu_node.boot()[1]
    [hook] = [event for event in result["events"] if event["stage"] == "hook"]
    assert hook["state"] == "failed"
    assert "AccessDenied" in hook["reason"]
    assert not list((gpu_node.root / "var/lib/gpu-cluster").glob("launched-*"))


def test_node_outside_any_group_says_so_and_is_ready(gpu_node: Any, gpu_settings: Any) -> None:
    gpu_node.account.group = None
    gpu_node.install(**gpu_settings)
    status, result = gpu_node.boot()
    assert (status, states(result, "hook")) == (READY, ["skipped"])
    assert gpu_node.account.made("complete-lifecycle-action") == []


def test_node_in_service_already_completes_nothing(gpu_node: Any, gpu_settings: Any) -> None:
    gpu_node.account.lifecycle = "InService"
    gpu_node.install(**gpu_settings)
    assert states(gpu_node.boot()[1], "hook") == ["skipped"]
    assert gpu_node.account.made("complete-lifecycle-action") == []


def test_reboot_checks_again_but_completes_nothing(gpu_node: Any, gpu_settings: Any) -> None:
    gpu_node.install(**gpu_settings)
    gpu_node.boot()
    gpu_node.account.lifecycle = "Pending:Wait"
    gpu_node.write("proc/sys/kernel/random/boot_id", "boot-2\n")
    status, result = gpu_node.boot()
    assert (status, result["first_boot"], result["boot_id"]) == (READY, False, "boot-2")
    assert states(result, "driver") == ["started", "ok"]
    assert len(gpu_node.account.made("complete-lifecycle-action")) == 1


def test_reboot_during_the_launch_restarts_the_time_of_its_hook(gpu_node: Any, gpu_settings: Any) -> None:
    """The deadline of the boot restarts with the kernel, and the hook's time-out does not."""
    gpu_node.install(**gpu_settings)
    gpu_node.write("var/lib/gpu-cluster/rebooted", "boot-0\n")
    assert states(gpu_node.boot()[1], "hook") == ["restarted", "ok"]
    [beat] = gpu_node.account.made("record-lifecycle-action-heartbeat")
    assert beat["--lifecycle-hook-name"] == ["ready"]
    gpu_node.boot()
    assert len(gpu_node.account.made("record-lifecycle-action-heartbeat")) == 1


def test_new_instance_from_an_image_of_an_old_one_completes_its_own_launch(
    gpu_node: Any, gpu_settings: Any, imds: dict[str, str]
) -> None:
    gpu_node.install(**gpu_settings)
    gpu_node.boot()
    gpu_node.account.lifecycle = "Pending:Wait"
    imds["instance-id"] = "i-0fedcba9876543210"
    gpu_node.boot()
    ids = [action["--instance-id"] for action in gpu_node.account.made("complete-lifecycle-action")]
    assert ids == [["i-0123456789abcdef0"], ["i-0fedcba9876543210"]]


def test_boot_that_breaks_abandons_with_a_reason(gpu_node: Any, gpu_settings: Any) -> None:
    gpu_node.install(**gpu_settings)
    (gpu_node.root / "usr/local/lib/gpu-cluster/gpunode/boot/stages.py").write_text(
        "def stages_of(_):\n    return 1 / 0\n"
    )
    assert "ZeroDivisionError" in gpu_node.boot()[1]["reason"]
    [action] = gpu_node.account.made("complete-lifecycle-action")
    assert action["--lifecycle-action-result"] == ["ABANDON"]
    assert "stopped unexpectedly" in (gpu_node.root / "dev/console").read_text()


def test_node_that_does_not_find_out_who_it_is_fails_with_that_reason(
    gpu_node: Any, gpu_settings: Any, imds: dict[str, str]
) -> None:
    del imds["instance-id"]
    gpu_node.install(**gpu_settings, boot_deadline_seconds=100)
    assert "does not return the id of this instance" in gpu_node.boot()[1]["reason"]


def test_evidence_of_a_failed_node_is_in_s3_before_its_launch_is_abandoned(gpu_node: Any, gpu_settings: Any) -> None:
    gpu_node.gpus("GPU-aaaa, 1 MiB")
    gpu_node.install(**gpu_settings, boot_deadline_seconds=100, evidence_uri="s3://logs/evidence/trainers")
    gpu_node.account.denied = {"cp": 1}  # the policy may come later than the node
    _, result = gpu_node.boot()
    order = [name for name, _ in gpu_node.account.calls]
    assert order.index("cp") < order.index("put-log-events") < order.index("complete-lifecycle-action")
    [(address, bundle)] = gpu_node.account.bundles.items()
    assert address.startswith(f"s3://logs/evidence/trainers/{INSTANCE}/")
    assert [event["reason"] for event in result["events"] if event["stage"] == "evidence"] == [address]
    with tarfile.open(fileobj=io.BytesIO(bundle)) as archive:
        files: Any = {name: archive.extractfile(name) for name in archive.getnames()}
        assert json.loads(files["reason.json"].read())["reason"] == "driver: 1 of 2 GPUs answer"
        assert json.loads(files["boot.json"].read())["state"] == "failed"


def test_scripts_of_services_print_the_reason_and_not_that_of_an_event(gpu_node: Any, gpu_settings: Any) -> None:
    """Without a bucket for evidence, an event with a reason of its own follows the failure."""
    gpu_node.gpus("GPU-aaaa, 1 MiB")
    gpu_node.install(**gpu_settings, boot_deadline_seconds=100)
    _, result = gpu_node.boot()
    assert result["events"][-1]["reason"] not in ("", result["reason"])
    check = "\n".join(CHECK_LINES).replace("/run/", f"{gpu_node.root}/run/")
    done = subprocess.run(
        ["sh", "-c", f"systemctl() {{ false; }}\n{check}"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, f"gpu-node-boot: {result['reason']}\n")
    kept = gpu_node.root / "run/gpu-cluster/boot.json"
    kept.write_text(kept.read_text().replace(result["reason"], 'a \\"b\\" c'))
    done = subprocess.run(
        ["sh", "-c", f"systemctl() {{ false; }}\n{check}"], capture_output=True, text=True, check=False
    )
    assert done.stdout == 'gpu-node-boot: a \\"b\\" c\n'


def test_logs_and_evidence_that_aws_does_not_take_hold_nothing_back(gpu_node: Any, gpu_settings: Any) -> None:
    gpu_node.gpus("GPU-aaaa, 1 MiB")
    gpu_node.account.denied = {"cp": 1000, "put-log-events": 1000}
    gpu_node.install(**gpu_settings, boot_deadline_seconds=100, evidence_uri="s3://logs/evidence")
    _, result = gpu_node.boot()
    assert (states(result, "evidence"), states(result, "log")) == (["failed"], ["failed"])
    [action] = gpu_node.account.made("complete-lifecycle-action")
    assert action["--lifecycle-action-result"] == ["ABANDON"]


def test_node_that_is_about_to_end_is_not_waited_for(gpu_node: Any, gpu_settings: Any) -> None:
    gpu_node.install(**gpu_settings)
    gpu_node.write("run/gpu-cluster/ending", "spot-interruption 2026-12-01T11:00:00Z\n")
    assert gpu_node.boot()[1]["reason"] == (
        "driver: this instance is about to end: spot-interruption 2026-12-01T11:00:00Z"
    )


def test_reason_with_quotes_and_newlines_stays_valid_json(gpu_node: Any, gpu_settings: Any) -> None:
    gpu_node.tool("nvidia-smi", "#!/bin/sh\nprintf 'a \"quoted\"\\nback\\\\slash\\ttab'\nexit 9\n")
    gpu_node.install(**gpu_settings, boot_deadline_seconds=100)
    assert gpu_node.boot()[1]["reason"] == 'driver: nvidia-smi: a "quoted" back\\slash tab'


def test_node_with_a_fault_that_only_a_check_sees_takes_no_work(gpu_node: Any, gpu_settings: Any) -> None:
    gpu_health.install(gpu_node.tools, {"gpus": [{}, {"remapped_rows.failure": "1"}]})
    gpu_node.install(**gpu_settings, boot_deadline_seconds=100)
    _, result = gpu_node.boot()
    assert result["reason"].startswith("verification: row-remapping: ")
    assert result["reason"].endswith("(replace)")
    assert result["fix"]
    [action] = gpu_node.account.made("complete-lifecycle-action")
    assert action["--lifecycle-action-result"] == ["ABANDON"]


@pytest.mark.parametrize("mode", [WatchMode.DRY_RUN, WatchMode.OFF])
def test_where_the_watchdog_does_not_act_a_fault_is_only_told(
    gpu_node: Any, gpu_settings: Any, mode: WatchMode
) -> None:
    gpu_health.install(gpu_node.tools, {"gpus": [{}, {"remapped_rows.failure": "1"}]})
    gpu_node.install(**gpu_settings, watch=NodeWatch(mode=mode))
    _, result = gpu_node.boot()
    assert result["state"] == "ready"
    [told] = [event for event in result["events"] if (event["stage"], event["state"]) == ("verification", "ok")]
    assert "row-remapping" in told["reason"]


def test_what_no_check_can_tell_holds_no_node_back(gpu_node: Any, gpu_settings: Any) -> None:
    gpu_health.install(
        gpu_node.tools,
        {"gpus": [{}, {}], "unknown": ["remapped_rows", "fabric", "ecc.errors.uncorrected.volatile"]},
    )
    gpu_node.install(**gpu_settings)
    assert gpu_node.boot()[1]["state"] == "ready"


def test_disk_that_takes_no_result_does_not_hide_a_failed_boot_from_the_watchdog(
    gpu_node: Any, gpu_settings: Any
) -> None:
    gpu_node.gpus("GPU-aaaa, 1 MiB")
    gpu_node.install(**gpu_settings, boot_deadline_seconds=100)
    (gpu_node.root / "var/lib/gpu-cluster/boot.json").mkdir(parents=True)
    assert gpu_node.gpunode("boot").returncode == FAILED
    kept = json.loads((gpu_node.root / "run/gpu-cluster/boot.json").read_text())
    assert (kept["state"], kept["reason"]) == ("failed", "driver: 1 of 2 GPUs answer")
