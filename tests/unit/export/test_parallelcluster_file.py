"""The configuration of AWS ParallelCluster for cluster files: its own schema takes it, and it means the same."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from cdk_gpu_clusters.rules.parallelcluster import check_counts
from cdk_gpu_clusters_stacks.export import Exported, ExportOptions, export_parallelcluster
from cdk_gpu_clusters_stacks.spec import ClusterSpec, load_cluster, read_cluster
from cdk_gpu_clusters_stacks.spec._document import dotted
from parallelcluster.installed import schema_faults

_EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
_VOLUME = "fsvol-0123456789abcdef0"
_IDS = {
    "FleetSubnetId": "subnet-0123456789abcdef0",
    "FileSystemId": "fs-0123456789abcdef0",
    "BucketName": "checkpoints-bucket",
    "ReservationId": "cr-0fedcba9876543210",
    "PlacementGroupName": "made-with-it",
}


class _AnyStack(dict[str, Mapping[str, str]]):
    """Outputs of whatever stack."""

    def get(self, key: str, default: object = None) -> Mapping[str, str]:
        return _IDS


_OPTIONS = ExportOptions(
    scripts=("my-bucket", "cluster/"),
    security_group_ids=("sg-0123456789abcdef0",),
    key_name="operators",
    volumes={"home": _VOLUME},
    outputs=_AnyStack(),
)
#: Examples of training clusters on EC2 and on AWS PCS.
_EXPORTED = (
    "p4d-new-reservation",
    "p5-capacity-block",
    "p5en-spot",
    "p6-b300-existing-reservation",
    "pcs-g6-dev",
    "pcs-p5-capacity-block",
    "pcs-spot-queue",
)
#: Examples that ParallelCluster refuses -> the rules.
_REFUSED = {
    "pcs-p4d-mig": {"GPU-PCL-003"},
    "p6e-gb200-ultraserver": {"GPU-PCL-009"},
    "trn1-training": {"GPU-PCL-018"},
    "two-fleets": {"GPU-PCL-011"},
    "train-and-serve": {"GPU-SPEC-046"},
    "eks-p5-capacity-block": {"GPU-SPEC-092"},
}


@cache
def exported(name: str) -> Exported:
    return export_parallelcluster(load_cluster(_EXAMPLES / f"{name}.yaml"), _OPTIONS)


_LONG = "x" * 26
_ARM = """
version: 1
name: arm
region: us-east-1
network: { vpc_id: vpc-0123456789abcdef0, subnet_ids: [subnet-0123456789abcdef0], availability_zone: us-east-1a }
training:
  fleets:
    dev:
      instance_type: g5g.xlarge
      nodes: 1
"""


_TRAINIUM = _ARM.replace("g5g.xlarge", "trn1.32xlarge")


def read(text: str) -> ClusterSpec:
    reading = read_cluster("cluster.yaml", content=text.encode())
    assert reading.spec is not None, reading.findings
    return reading.spec


def written(text: str, options: ExportOptions = _OPTIONS) -> Any:
    return yaml.safe_load(export_parallelcluster(read(text), options).files["cluster-config.yaml"])


def ids_of(text: str, options: ExportOptions = _OPTIONS) -> list[tuple[str, str]]:
    faults = export_parallelcluster(read(text), options).faults
    return [(fault.finding.id, dotted(fault.key)) for fault in faults]


@cache
def configuration(name: str) -> Any:
    return yaml.safe_load(exported(name).files["cluster-config.yaml"])


def queue_of(name: str, queue: str) -> Any:
    return next(one for one in configuration(name)["Scheduling"]["SlurmQueues"] if one["Name"] == queue)


@pytest.fixture(scope="module")
def faults() -> dict[str, Any]:
    texts = [exported(name).files.get("cluster-config.yaml", "") for name in _EXPORTED]
    broken = texts[0].replace("SlurmQueues:", "SlurmQueue:")
    *found, of_broken = schema_faults([*texts, broken])
    assert of_broken  # the schema does find faults
    return dict(zip(_EXPORTED, found, strict=True))


@pytest.mark.parametrize("name", _EXPORTED)
def test_the_schema_of_parallelcluster_takes_the_file(faults: dict[str, Any], name: str) -> None:
    errors = [fault.finding for fault in exported(name).faults if fault.finding.severity.value == "error"]
    assert errors == []
    assert faults[name] == {}


def test_a_block_is_all_of_its_nodes_without_a_placement_group() -> None:
    [resource] = queue_of("pcs-p5-capacity-block", "trainers")["ComputeResources"]
    assert queue_of("pcs-p5-capacity-block", "trainers")["CapacityType"] == "CAPACITY_BLOCK"
    assert resource["CapacityReservationTarget"] == {"CapacityReservationId": "cr-0123456789abcdef0"}
    assert (resource["MinCount"], resource["MaxCount"]) == (16, 16)
    assert resource["Networking"]["PlacementGroup"] == {"Enabled": False}
    assert resource["Efa"] == {"Enabled": True}


def test_a_reservation_made_with_the_fleet_brings_its_placement_group() -> None:
    queues = configuration("p4d-new-reservation")["Scheduling"]["SlurmQueues"]
    [resource] = queues[0]["ComputeResources"]
    assert queues[0]["CapacityType"] == "ONDEMAND"
    assert resource["CapacityReservationTarget"] == {"CapacityReservationId": _IDS["ReservationId"]}
    assert resource["Networking"]["PlacementGroup"] == {"Name": _IDS["PlacementGroupName"]}


def test_capacity_of_a_reservation_in_a_group_of_its_own() -> None:
    [resource] = queue_of("p6-b300-existing-reservation", "trainers")["ComputeResources"]
    assert resource["CapacityReservationTarget"] == {"CapacityReservationId": "cr-0fedcba9876543210"}
    assert resource["Networking"]["PlacementGroup"] == {"Name": "pretrain-b300"}
    assert configuration("p6-b300-existing-reservation")["Image"] == {"Os": "ubuntu2404"}


def test_spot_nodes_have_their_price_and_a_placement_group() -> None:
    queue = queue_of("p5en-spot", "trainers")
    [resource] = queue["ComputeResources"]
    assert (queue["CapacityType"], resource["SpotPrice"]) == ("SPOT", 40)
    assert resource["Networking"]["PlacementGroup"] == {"Enabled": True}


def test_nodes_that_come_and_go_with_jobs_keep_their_weight() -> None:
    [resource] = queue_of("pcs-spot-queue", "spot")["ComputeResources"]
    assert (resource["MinCount"], resource["MaxCount"]) == (0, 8)
    assert (resource["StaticNodePriority"], resource["DynamicNodePriority"]) == (1, 1)
    assert "CustomSlurmSettings" not in resource


def test_a_queue_of_several_fleets_is_a_partition_over_their_nodes() -> None:
    settings = configuration("pcs-spot-queue")["Scheduling"]["SlurmSettings"]["CustomSlurmSettings"]
    assert {
        "PartitionName": "batch",
        "Nodes": "spot_nodes,steady_nodes",
        "Default": "YES",
        "MaxTime": "1-00:00:00",
    } in settings


def test_stores_are_shared_storage_by_their_ids() -> None:
    storage = {one["MountDir"]: one for one in configuration("pcs-p5-capacity-block")["SharedStorage"]}
    assert storage["/fsx"]["FsxLustreSettings"] == {"FileSystemId": _IDS["FileSystemId"]}
    assert storage["/home"]["FsxOpenZfsSettings"] == {"VolumeId": _VOLUME}
    [efs] = configuration("pcs-spot-queue")["SharedStorage"]
    assert efs["EfsSettings"] == {"FileSystemId": _IDS["FileSystemId"], "EncryptionInTransit": True}


def test_checkpoints_are_reached_by_the_nodes_that_have_them() -> None:
    rights = queue_of("pcs-p5-capacity-block", "trainers")["Iam"]["S3Access"]
    assert {"BucketName": "checkpoints-bucket", "KeyName": "trainers/*", "EnableWriteAccess": True} in rights
    action = queue_of("pcs-p5-capacity-block", "trainers")["CustomActions"]["OnNodeConfigured"]
    assert action["Args"] == ["configured", _CHECKPOINTS]


def test_head_and_login_nodes_are_of_the_architecture_of_the_fleets() -> None:
    assert written(_ARM)["HeadNode"]["InstanceType"] == "m7g.xlarge"
    assert configuration("p5en-spot")["HeadNode"]["InstanceType"] == "m7i.xlarge"
    assert "LoginNodes" not in configuration("p5en-spot")
    [pool] = configuration("pcs-spot-queue")["LoginNodes"]["Pools"]
    assert (pool["Count"], pool["InstanceType"]) == (1, "m7i.large")


@pytest.mark.parametrize("name", _REFUSED)
def test_what_parallelcluster_refuses_is_an_error_and_no_file(name: str) -> None:
    refused = exported(name)
    assert _REFUSED[name] <= {fault.finding.id for fault in refused.faults if fault.finding.severity.value == "error"}
    assert refused.files == {}


def test_settings_that_parallelcluster_makes_itself_are_refused_at_their_key() -> None:
    text = _ARM.replace("training:", "orchestrator: pcs\n{pcs}training:")
    settings = "pcs: { slurm_settings: { Prolog: /a }, node_settings: { dev: { Weight: '5', State: DOWN } } }\n"
    found = [one for one in ids_of(text.replace("{pcs}", settings)) if one[0] == "GPU-PCL-005"]
    assert found == [
        ("GPU-PCL-005", "pcs.node_settings.dev.State"),
        ("GPU-PCL-005", "pcs.slurm_settings.Prolog"),
    ]


def test_a_cluster_has_a_bounded_number_of_queues_and_compute_resources() -> None:
    assert check_counts([1] * 50) == []
    assert [one.id for one in check_counts([1] * 51)] == ["GPU-PCL-008"]
    assert [one.id for one in check_counts([26, 25])] == ["GPU-PCL-008"]


# The scripts.


def script_of(name: str) -> str:
    [text] = [text for path, text in exported(name).files.items() if path.startswith("scripts/nodes-")]
    return text


_CHECKPOINTS = "CHECKPOINT_S3_URI=s3://checkpoints-bucket/trainers/"


def test_the_script_is_named_by_its_text_and_runs_twice() -> None:
    actions = queue_of("pcs-p5-capacity-block", "trainers")["CustomActions"]
    [path] = [path for path in exported("pcs-p5-capacity-block").files if path.startswith("scripts/nodes-")]
    url = f"s3://my-bucket/cluster/{path.removeprefix('scripts/')}"
    assert actions == {
        "OnNodeStart": {"Script": url, "Args": ["start"]},
        "OnNodeConfigured": {"Script": url, "Args": ["configured", _CHECKPOINTS]},
    }


def test_lustre_over_efa_is_set_up_before_parallelcluster_mounts() -> None:
    start, configured = script_of("pcs-p5-capacity-block").split("\nconfigured)\n")
    # At every boot: the unit comes before all mounts of the network, and before slurmd.
    assert "ExecStart=/usr/local/bin/gpunode lustre-efa set-up\n" in start
    assert "Before=remote-fs-pre.target gpu-node-boot.service slurmd.service\n" in start
    assert "systemctl enable gpu-lustre-efa\nsystemctl start gpu-lustre-efa ||" in start
    assert "GPU_LUSTRE_EFA=" in start
    assert "systemctl start gpu-node-boot" in configured
    assert "lustre-efa set-up" not in script_of("p5en-spot")


def run(
    script: str, root: Path, *arguments: str, host: str = "trainers-st-trainers-1"
) -> subprocess.CompletedProcess[str]:
    """Run a script with its absolute paths below a folder, and programs of systemd that do nothing."""
    programs = root / "programs"
    programs.mkdir(exist_ok=True)
    for name in ("systemctl", "systemd-sysusers"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    named = root / "etc/parallelcluster/slurm_plugin/slurm_nodename"
    named.parent.mkdir(parents=True, exist_ok=True)
    named.write_text(f"{host}\n")
    (root / "etc/gpu-cluster").mkdir(exist_ok=True)
    text = script.replace("tar -xzC /", f"tar -xzC {root}")
    for folder in ("/etc/", "/opt/", "/usr/local/bin/"):
        text = text.replace(f" {folder}", f" {root}{folder}").replace(f">{folder}", f">{root}{folder}")
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    return subprocess.run(
        ["bash", "-s", *arguments], input=text, text=True, capture_output=True, check=False, env=environment
    )


def test_the_start_of_a_node_installs_its_software_and_settings(tmp_path: Path) -> None:
    done = run(script_of("p5en-spot"), tmp_path, "start")
    assert done.returncode == 0, done.stderr
    settings = (tmp_path / "etc/gpu-cluster/node.env").read_text()
    assert {"GPU_ORCHESTRATOR=slurm", "GPU_SLURM_BIN=/opt/slurm/bin", "GPU_FLEET=trainers"} <= set(settings.split("\n"))
    assert (tmp_path / "usr/local/lib/gpu-cluster/gpunode/__main__.py").exists()
    order = (tmp_path / "etc/systemd/system/gpu-node-boot.service.d/order.conf").read_text()
    assert "RequiredBy=slurmd.service" in order


def test_the_engine_of_dcgm_runs_before_the_checks_that_need_it() -> None:
    configured = script_of("p5en-spot").split("\nconfigured)\n")[1]
    assert 0 <= configured.index("systemctl enable --now nvidia-dcgm || true") < configured.index("gpu-node-boot")
    own = _TRAINIUM.replace("nodes: 1", "nodes: 1\n      image: { id: ami-0123456789abcdef0, os: al2023 }")
    scripts = [text for path, text in export_parallelcluster(read(own), _OPTIONS).files.items() if "nodes-" in path]
    assert ["dcgm" in text.split("\nconfigured)\n")[1] for text in scripts] == [False]


@pytest.mark.parametrize(("host", "scales"), [("trainers-dy-trainers-1", True), ("trainers-st-trainers-1", False)])
def test_a_dynamic_node_is_powered_down_in_place_of_a_drain(tmp_path: Path, host: str, scales: bool) -> None:
    for argument in ("start", "configured"):
        done = run(script_of("p5en-spot"), tmp_path, argument, host=host)
        assert done.returncode == 0, done.stderr
    settings = (tmp_path / "etc/gpu-cluster/node.env").read_text().split("\n")
    assert {f"GPU_NODE_NAME={host}", "GPU_REPLACES_DRAINED=1"} <= set(settings)
    assert ("GPU_SCALES=1" in settings) is scales


def test_jobs_find_what_only_a_deployment_knows(tmp_path: Path) -> None:
    script = script_of("pcs-p5-capacity-block")
    for arguments in (("start",), ("configured", _CHECKPOINTS, "OTHER=a b")):
        assert run(script, tmp_path, *arguments).returncode == 0
    sessions = (tmp_path / "etc/profile.d/gpu-cluster.sh").read_text()
    shown = subprocess.run(
        ["bash", "-c", f'{sessions}\necho "$CHECKPOINT_S3_URI|$OTHER"'], capture_output=True, text=True, check=True
    )
    assert shown.stdout == "s3://checkpoints-bucket/trainers/|a b\n"


def test_the_environment_of_the_cluster_file_wins(tmp_path: Path) -> None:
    text = _ARM + "      environment: { CHECKPOINT_S3_URI: s3://mine }\n"
    [script] = [one for path, one in export_parallelcluster(read(text), _OPTIONS).files.items() if "nodes-dev" in path]
    for arguments in (("start",), ("configured", _CHECKPOINTS)):
        assert run(script, tmp_path, *arguments, host="dev-st-dev-1").returncode == 0
    assert (tmp_path / "etc/profile.d/gpu-cluster.sh").read_text().count("CHECKPOINT_S3_URI") == 1


def test_a_node_whose_checks_fail_fails_its_custom_action(tmp_path: Path) -> None:
    passes = run(script_of("p5en-spot"), tmp_path, "configured")
    assert passes.returncode == 0, passes.stderr
    fails = script_of("p5en-spot").replace("systemctl start gpu-node-boot", "false")
    other = tmp_path / "other"
    other.mkdir()
    assert run(fails, other, "configured").returncode == 1
    unknown = tmp_path / "unknown"
    unknown.mkdir()
    assert run(script_of("p5en-spot"), unknown).returncode == 2


def test_the_head_node_gives_jobs_the_prolog_of_nodes_that_have_one(tmp_path: Path) -> None:
    done = run(exported("p5en-spot").files["scripts/head-node.sh"], tmp_path)
    assert done.returncode == 0, done.stderr
    for kind in ("prolog", "epilog"):
        hook = tmp_path / f"opt/slurm/etc/scripts/{kind}.d/50-gpu-cluster"
        assert os.access(hook, os.X_OK)
        assert f"/etc/gpu-cluster/{kind}.d/90-gpu-cluster" in hook.read_text()
        assert subprocess.run([hook], check=False).returncode == 0  # a node without the software
    mine = tmp_path / "etc/gpu-cluster/prolog.d/90-gpu-cluster"
    mine.parent.mkdir(parents=True)
    mine.write_text("#!/bin/sh\nexit 7\n")
    mine.chmod(0o755)
    assert subprocess.run([tmp_path / "opt/slurm/etc/scripts/prolog.d/50-gpu-cluster"], check=False).returncode == 7


# What is left out, and what is not known.


def test_nothing_is_left_out_silently() -> None:
    text = _ARM.replace(
        "nodes: 1",
        "nodes: 1\n      alarms: { idle: false }\n      scratch: false\n      image: { os: ubuntu-22.04 }",
    )
    omitted = [key for rule, key in ids_of(text + "monitoring: { dashboard: true }\n") if rule == "GPU-PCL-010"]
    assert omitted == ["monitoring", "training.fleets.dev.alarms", "training.fleets.dev.scratch"]
    assert ids_of(_ARM) == []


def test_a_file_without_scripts_says_that_nothing_checks_the_nodes() -> None:
    bare = ExportOptions()
    assert ("GPU-PCL-010", "training") in ids_of(_ARM, bare)
    [queue] = written(_ARM, bare)["Scheduling"]["SlurmQueues"]
    assert "CustomActions" not in queue


def test_what_a_deployment_makes_needs_its_outputs() -> None:
    text = _ARM.replace("vpc_id: vpc-0123456789abcdef0, subnet_ids: [subnet-0123456789abcdef0], ", "")
    assert set(ids_of(text, ExportOptions(scripts=("b", "")))) == {("GPU-PCL-012", "network")}
    known = ExportOptions(scripts=("b", ""), outputs={"arm-network": {"FleetSubnetId": "subnet-0aaaaaaaaaaaaaaaa"}})
    assert ids_of(text, known) == []
    assert written(text, known)["HeadNode"]["Networking"]["SubnetId"] == "subnet-0aaaaaaaaaaaaaaaa"


@pytest.mark.parametrize(
    ("change", "rule", "key"),
    [
        (("    dev:", f"    {_LONG}:"), "GPU-PCL-001", f"training.fleets.{_LONG}"),
        (("nodes: 1", "nodes: 1\n      placement: spread"), "GPU-PCL-004", "training.fleets.dev.placement"),
        (
            ("nodes: 1", "nodes: 1\n      image: { parameter: /my/image }"),
            "GPU-PCL-007",
            "training.fleets.dev.image.parameter",
        ),
        (("training:", "data: { a: { efs: {} } }\ntraining:"), "", ""),
    ],
)
def test_what_the_configuration_cannot_say_is_refused_at_its_key(change: tuple[str, str], rule: str, key: str) -> None:
    found = ids_of(_ARM.replace(*change))
    assert found == ([(rule, key)] if rule else [])


def test_a_mount_point_is_one_that_all_nodes_can_have() -> None:
    stores = "data: { a: { efs: {} }, b: { efs: {} } }\n"
    with_mounts = _ARM + "      mounts: { /home: a }\n    other: { instance_type: g5g.xlarge, nodes: 1, mounts: %s }\n"
    assert ids_of((with_mounts % "{ /home: b }") + stores) == [("GPU-PCL-006", "training.fleets.other.mounts./home")]
    assert ids_of((with_mounts % "{ /home: a }") + stores) == []
    twice = written((with_mounts % "{ /home: a, /other: a }") + stores)["SharedStorage"]
    assert [(one["MountDir"], one["Name"]) for one in twice] == [("/home", "a"), ("/other", "a-2")]
    long = "b" * 31
    named = (with_mounts % f"{{ /fsx: {long} }}") + stores.replace("b:", f"{long}:")
    assert ids_of(named) == [("GPU-PCL-006", "training.fleets.other.mounts./fsx")]
    assert ids_of((with_mounts % "{ /mnt: b }") + stores) == [("GPU-PCL-006", "training.fleets.other.mounts./mnt")]


# A cluster file with the orchestrator: what its stacks make has its place in the configuration.

_OUTPUTS = {
    "foundation-network": {"FleetSubnetId": "subnet-0123456789abcdef0"},
    "foundation-data-home": {"FileSystemId": "fs-0123456789abcdef0", "VolumeId": _VOLUME},
    "foundation-data-corpus": {"FileSystemId": "fs-0fedcba9876543210"},
    "foundation-data-checkpoints": {"BucketName": "checkpoints-bucket"},
    "foundation-parallelcluster": {
        "ClientSecurityGroupId": "sg-0123456789abcdef0",
        "HeadNodeScriptUrl": "s3://assets/head.sh",
        "NodeScriptTrainersUrl": "s3://assets/nodes.sh",
        "CheckpointPolicyTrainersArn": "arn:aws:iam::111122223333:policy/checkpoints",
    },
}


@cache
def of_the_word() -> Any:
    spec = load_cluster(_EXAMPLES / "parallelcluster-p5.yaml")
    made = export_parallelcluster(spec, ExportOptions(outputs=_OUTPUTS))
    assert made.faults == ()
    assert list(made.files) == ["cluster-config.yaml"]  # the scripts are assets of the stack
    return yaml.safe_load(made.files["cluster-config.yaml"])


def test_what_the_stacks_make_is_in_the_configuration() -> None:
    [queue] = of_the_word()["Scheduling"]["SlurmQueues"]
    assert queue["Networking"] == {
        "SubnetIds": ["subnet-0123456789abcdef0"],
        "AdditionalSecurityGroups": ["sg-0123456789abcdef0"],
    }
    for node in (of_the_word()["HeadNode"], *of_the_word()["LoginNodes"]["Pools"]):
        assert node["Networking"]["AdditionalSecurityGroups"] == ["sg-0123456789abcdef0"]
    storage = {one["MountDir"]: one for one in of_the_word()["SharedStorage"]}
    assert storage["/home"]["FsxOpenZfsSettings"] == {"VolumeId": _VOLUME}
    assert storage["/fsx"]["FsxLustreSettings"] == {"FileSystemId": "fs-0fedcba9876543210"}


def test_nodes_read_their_own_script_and_nothing_else_of_the_bucket() -> None:
    [queue] = of_the_word()["Scheduling"]["SlurmQueues"]
    assert queue["CustomActions"] == {
        "OnNodeStart": {"Script": "s3://assets/nodes.sh", "Args": ["start"]},
        "OnNodeConfigured": {"Script": "s3://assets/nodes.sh", "Args": ["configured", _CHECKPOINTS]},
    }
    assert queue["Iam"]["S3Access"] == [{"BucketName": "assets", "KeyName": "nodes.sh"}]
    head = of_the_word()["HeadNode"]
    assert head["CustomActions"] == {"OnNodeConfigured": {"Script": "s3://assets/head.sh"}}
    assert head["Iam"]["S3Access"] == [{"BucketName": "assets", "KeyName": "head.sh"}]
    policies = [one["Policy"] for one in queue["Iam"]["AdditionalIamPolicies"]]
    assert "arn:aws:iam::111122223333:policy/checkpoints" in policies


def test_the_schema_of_parallelcluster_takes_the_file_of_its_own_orchestrator() -> None:
    assert schema_faults([yaml.safe_dump(of_the_word())]) == [{}]


def test_the_section_describes_head_and_login_nodes_queues_and_settings() -> None:
    text = """
version: 1
name: lab
region: us-east-1
orchestrator: parallelcluster
network: { vpc_id: vpc-0123456789abcdef0, subnet_ids: [subnet-0123456789abcdef0], availability_zone: us-east-1a }
data:
  home: { existing_openzfs: { file_system_id: fs-0123456789abcdef0, security_group_id: sg-0123456789abcdef1 } }
parallelcluster:
  head_node: { instance_type: m7g.4xlarge, ssh_key_name: operators, ssh_cidr: 10.0.0.0/16 }
  login: { nodes: 2 }
  scale_down_idle_minutes: 30
  slurm_settings: { MinJobAge: "300" }
  node_settings: { dev: { Weight: "5" } }
  queues: { work: { fleets: [dev, more], slurm_settings: { MaxTime: "60" } } }
  volumes: { home: fsvol-0123456789abcdef0 }
training:
  fleets:
    dev: { instance_type: g5g.xlarge, nodes: 1, mounts: { /home: home } }
    more: { instance_type: g5g.2xlarge, min_nodes: 0, max_nodes: 4 }
"""
    names = ["HeadNodeScriptUrl", "NodeScriptDevUrl", "NodeScriptMoreUrl"]
    made = {name: f"s3://assets/{name}.sh" for name in names}
    outputs = {"lab-parallelcluster": {"ClientSecurityGroupId": "sg-0123456789abcdef0", **made}}
    found = written(text, ExportOptions(outputs=outputs))
    head, [pool], slurm = found["HeadNode"], found["LoginNodes"]["Pools"], found["Scheduling"]["SlurmSettings"]
    assert (head["InstanceType"], head["Ssh"]) == (
        "m7g.4xlarge",
        {"KeyName": "operators", "AllowedIps": "10.0.0.0/16"},
    )
    assert (pool["InstanceType"], pool["Count"], pool["Ssh"]) == ("m7g.large", 2, {"AllowedIps": "10.0.0.0/16"})
    assert slurm["ScaledownIdletime"] == 30
    assert {"MinJobAge": "300"} in slurm["CustomSlurmSettings"]
    assert {"PartitionName": "work", "Nodes": "dev_nodes,more_nodes", "MaxTime": "60"} in slurm["CustomSlurmSettings"]
    [dev, more] = [queue["ComputeResources"][0] for queue in found["Scheduling"]["SlurmQueues"]]
    assert (dev["StaticNodePriority"], more["MinCount"], more["MaxCount"]) == (5, 0, 4)
    assert found["SharedStorage"][0]["FsxOpenZfsSettings"] == {"VolumeId": "fsvol-0123456789abcdef0"}
    assert schema_faults([yaml.safe_dump(found)]) == [{}]


def test_a_file_before_its_deployment_says_which_outputs_are_missing() -> None:
    made = export_parallelcluster(load_cluster(_EXAMPLES / "parallelcluster-p5.yaml"), ExportOptions())
    found = [(fault.finding.id, dotted(fault.key)) for fault in made.faults]
    assert {rule for rule, _ in found} == {"GPU-PCL-012"}
    assert ("GPU-PCL-012", "orchestrator") in found
    causes = [fault.finding.cause for fault in made.faults]
    assert len(causes) == len(set(causes))
