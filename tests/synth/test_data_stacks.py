"""Data stacks: what they protect, that no edit replaces what they hold, and that nothing else appears in them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters_stacks.app import build_cluster
from cdk_gpu_clusters_stacks.spec import load_cluster
from cluster_files.store_edits import CLUSTER, HARMFUL, HARMLESS, edited
from gpu_clusters_emulator.schemas import resource_schema
from shared_assemblies import SharedAssemblies
from stack_fixtures import node_roles, of_type, only

STORES = ("corpus", "fast", "elastic", "checkpoints")
#: What is lost when it is replaced or deleted.
STATEFUL = (
    "AWS::FSx::FileSystem",
    "AWS::S3::Bucket",
    "AWS::S3Express::DirectoryBucket",
    "AWS::KMS::Key",
)
#: Public: a change replaces what users have deployed.
LOGICAL_IDS = {
    "corpus": {
        "Store1D2A845B": "AWS::FSx::FileSystem",
        "StoreKey7A3C02BD": "AWS::KMS::Key",
        "StoreServers689DDB8E": "AWS::EC2::SecurityGroup",
        "StoreRepositorydata1071A3D8": "AWS::FSx::DataRepositoryAssociation",
    },
    "fast": {
        "Store1D2A845B": "AWS::FSx::FileSystem",
        "StoreKey7A3C02BD": "AWS::KMS::Key",
        "StoreServers689DDB8E": "AWS::EC2::SecurityGroup",
    },
    "elastic": {
        "Store1D2A845B": "AWS::FSx::FileSystem",
        "StoreKey7A3C02BD": "AWS::KMS::Key",
        "StoreServers689DDB8E": "AWS::EC2::SecurityGroup",
    },
    "checkpoints": {
        "StoreBucket4FBDE984": "AWS::S3::Bucket",
        "StoreExpress9C6757C6": "AWS::S3Express::DirectoryBucket",
        "StoreKey7A3C02BD": "AWS::KMS::Key",
    },
}

Synthesize = Callable[[str], dict[str, str]]


@pytest.fixture(scope="module")
def synthesize(assemblies_of_files: SharedAssemblies) -> Synthesize:
    """Synthesize the text of a cluster file, once; the text of each template by stack name."""

    @cache
    def run(text: str) -> dict[str, str]:
        folder = assemblies_of_files.of(text)
        return {path.name.removesuffix(".template.json"): path.read_text() for path in folder.glob("*.template.json")}

    return run


def data_templates(made: dict[str, str]) -> dict[str, Any]:
    return {name.split("-data-")[1]: json.loads(text) for name, text in made.items() if "-data-" in name}


def protected_stacks(assembly: Path) -> set[str]:
    """Those that the CDK CLI deploys with termination protection."""
    artifacts = json.loads((assembly / "manifest.json").read_text("utf-8"))["artifacts"]
    return {name for name, one in artifacts.items() if one.get("properties", {}).get("terminationProtection")}


def test_each_store_has_a_protected_stack(assemblies_of_files: SharedAssemblies) -> None:
    assert protected_stacks(assemblies_of_files.of(CLUSTER)) == {f"lab-data-{name}" for name in STORES}


RESERVED = """\
version: 1
name: lab
region: us-east-1
network: { availability_zone: us-east-1a }
training:
  fleets:
    made: { instance_type: g6.48xlarge, nodes: 2, capacity: { new_reservation: { unlimited: true } }, efa: false }
    spare: { instance_type: g6.48xlarge, nodes: 2 }
"""


@pytest.mark.parametrize(
    ("line", "protected"),
    [("", {"lab-capacity-made", "lab-fleet-made"}), ("termination_protection: false\n", set())],
)
def test_what_is_paid_for_anyway_refuses_to_be_deleted_unless_the_file_allows_it(
    assemblies_of_files: SharedAssemblies, line: str, protected: set[str]
) -> None:
    assert protected_stacks(assemblies_of_files.of(RESERVED + line)) == protected


def test_what_holds_data_is_retained(synthesize: Synthesize) -> None:
    for name, template in data_templates(synthesize(CLUSTER)).items():
        for kind in (*STATEFUL, "AWS::FSx::DataRepositoryAssociation", "AWS::EC2::SecurityGroup"):
            for logical_id, resource in of_type(template["Resources"], kind).items():
                assert resource["DeletionPolicy"] == "RetainExceptOnCreate", f"{name}: {logical_id}"
                replaced = "Delete" if kind.endswith("Association") else "Retain"
                assert resource["UpdateReplacePolicy"] == replaced, f"{name}: {logical_id}"


def test_logical_ids_of_what_holds_data_are_pinned(synthesize: Synthesize) -> None:
    pinned = (*STATEFUL, "AWS::FSx::DataRepositoryAssociation", "AWS::EC2::SecurityGroup")
    found = {
        name: {key: one["Type"] for key, one in template["Resources"].items() if one["Type"] in pinned}
        for name, template in data_templates(synthesize(CLUSTER)).items()
    }
    assert found == LOGICAL_IDS


def test_data_depend_on_the_network_only(synthesize: Synthesize) -> None:
    def read(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            if "Fn::GetStackOutput" in value:
                yield value["Fn::GetStackOutput"]["StackName"]
            for inner in value.values():
                yield from read(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from read(inner)

    templates = data_templates(synthesize(CLUSTER))
    assert {name: set(read(template)) for name, template in templates.items()} == {
        "corpus": {"lab-network"},
        "fast": {"lab-network"},
        "elastic": {"lab-network"},
        "checkpoints": set(),
    }


def create_only(kind: str) -> frozenset[str]:
    """Properties whose change replaces the resource, with those that FSx refuses to change."""
    schema = resource_schema(kind)
    assert schema is not None, kind
    return schema.create_only_names | schema.conditional_create_only_names | {"StorageType"}


@pytest.mark.parametrize("name", HARMLESS)
def test_a_harmless_edit_replaces_nothing(name: str, synthesize: Synthesize) -> None:
    before, after = data_templates(synthesize(CLUSTER)), data_templates(synthesize(edited(*HARMLESS[name])))
    compared = 0
    for store in before.keys() & after.keys():
        old, new = before[store]["Resources"], after[store]["Resources"]
        for logical_id, resource in old.items():
            if resource["Type"] not in STATEFUL:
                continue
            assert new[logical_id]["Type"] == resource["Type"]
            for prop in create_only(resource["Type"]):
                assert new[logical_id]["Properties"].get(prop) == resource["Properties"].get(prop), prop
                compared += 1
            was, now = (one["Properties"].get("LustreConfiguration", {}) for one in (resource, new[logical_id]))
            for prop in ("DeploymentType", "EfaEnabled"):
                assert was.get(prop) == now.get(prop), prop
    assert compared > len(STATEFUL)


FLEET_EDITS = (
    "nodes",
    "type",
    "fleet removed",
    "fleet added",
    "MIG layout",
    "MIG switched off",
    "inference fleet removed",
    "inference fleet added",
    "another model server",
)


@pytest.mark.parametrize("name", FLEET_EDITS)
def test_fleets_leave_no_trace_in_data(name: str, synthesize: Synthesize) -> None:
    before, after = synthesize(CLUSTER), synthesize(edited(*HARMLESS[name]))
    for store in STORES:
        assert after[f"lab-data-{store}"] == before[f"lab-data-{store}"]


@pytest.mark.parametrize("name", ["store added", "store removed"])
def test_a_store_leaves_no_trace_elsewhere(name: str, synthesize: Synthesize) -> None:
    before, after = synthesize(CLUSTER), synthesize(edited(*HARMLESS[name]))
    assert before.items() <= after.items() or after.items() <= before.items()
    assert before != after


def test_a_fleet_reads_and_writes_its_checkpoints(synthesize: Synthesize) -> None:
    made = synthesize(CLUSTER)
    trainers = json.dumps(json.loads(made["lab-fleet-trainers"]))
    assert "lab-data-checkpoints" not in made["lab-fleet-helpers"]
    for action in ("s3:PutObject", "s3express:CreateSession", "kms:GenerateDataKey"):
        assert action in trainers, action
    for variable, output in (
        ("CHECKPOINT_S3_URI", "BucketName"),
        ("CHECKPOINT_EXPRESS_S3_URI", "ExpressBucketName"),
    ):
        assert f"{variable}='s3://" in trainers
        assert json.dumps({"StackName": "lab-data-checkpoints", "OutputName": output}) in trainers


def test_the_app_refuses_a_change_that_would_lose_data(tmp_path: Path) -> None:
    (tmp_path / "deployed.yaml").write_text(CLUSTER, encoding="utf-8")
    before, after, _ = HARMFUL["EFA switched off"]
    (tmp_path / "cluster.yaml").write_text(edited(before, after), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "cdk_gpu_clusters_stacks"],
        cwd=tmp_path,
        env={
            **os.environ,
            "CDK_OUTDIR": str(tmp_path / "cdk.out"),
            "CDK_CONTEXT_JSON": json.dumps({"deployed": "deployed.yaml"}),
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "cluster.yaml:11:83: error GPU-LUS-030" in done.stderr
    assert not (tmp_path / "cdk.out").exists()


def rules_between(template: dict[str, Any]) -> list[tuple[str, str]]:
    """Kind and protocol of each security-group rule whose both ends other stacks made, or the fleet's own."""
    return sorted(
        (one["Type"].rpartition("::")[2], one["Properties"]["IpProtocol"])
        for one in template["Resources"].values()
        if one["Type"].startswith("AWS::EC2::SecurityGroup") and "-data-" in json.dumps(one)
    )


def test_a_fabric_that_fleets_share_is_let_in_once(synthesize: Synthesize) -> None:
    made = {name: json.loads(text) for name, text in synthesize(CLUSTER).items()}
    both_ways = [(f"SecurityGroup{way}", "-1") for way in ("Egress", "Ingress") for _ in range(2)]
    assert rules_between(made["lab-link-fast-default"]) == both_ways
    for fleet in ("trainers", "second"):
        assert rules_between(made[f"lab-fleet-{fleet}"]) == []
        assert "/fsx" in json.dumps(made[f"lab-fleet-{fleet}"])
    tcp = [(f"SecurityGroup{way}", "tcp") for way in ("Egress", "Ingress") for _ in range(4)]
    assert rules_between(made["lab-link-corpus-default"]) == tcp
    assert rules_between(made["lab-fleet-helpers"]) == tcp


def test_preprocessing_on_graviton_mounts_what_the_trainers_mount(synthesize: Synthesize) -> None:
    text = edited("mounts: { /fsx: corpus }", "mounts: { /fsx: fast }")
    made = {name: json.loads(one) for name, one in synthesize(text).items()}
    template = made["lab-fleet-helpers"]
    data = only(template["Resources"], "AWS::EC2::LaunchTemplate")["LaunchTemplateData"]
    assert data["InstanceType"] == "m8g.4xlarge"
    image = template["Parameters"][data["ImageId"]["Ref"]]["Default"]
    assert image == "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-arm64"
    assert [each["InterfaceType"] for each in data["NetworkInterfaces"]] == ["interface"]
    told = json.dumps(data["UserData"])
    for setting in ("GPU_EFA_COUNT=0", "GPU_ACCELERATOR_COUNT=0", "GPU_MOUNTS=1"):
        assert f"{setting}\\n" in told
    assert "NCCL" not in told
    # The file system has EFA, and these nodes reach it over TCP as well: all traffic between the groups is let through.
    assert rules_between(template) == [(f"SecurityGroup{way}", "-1") for way in ("Egress", "Ingress") for _ in range(2)]


def test_an_existing_file_system_needs_no_data_stack(synthesize: Synthesize) -> None:
    existing = (
        "  old:\n    existing_lustre: { file_system_id: fs-0123456789abcdef0, mount_name: abcdefgh, "
        "security_group_id: sg-0123456789abcdef0 }\ntraining:"
    )
    before = synthesize(CLUSTER)
    text = edited("training:", existing).replace("/fsx: corpus", "/fsx: old")
    made = synthesize(text)
    assert set(made) == set(before)
    helpers = made["lab-fleet-helpers"]
    assert "sg-0123456789abcdef0" in helpers
    assert "fs-0123456789abcdef0.fsx.us-east-1." in helpers
    assert {name for name in made if made[name] != before[name]} == {"lab-fleet-helpers"}


@pytest.mark.parametrize(
    ("form", "name", "mounted"),
    [
        ("existing_openzfs", "fs-0123456789abcdef0.fsx.us-east-1.", "/fsx"),
        ("existing_efs", "fs-0123456789abcdef0.efs.us-east-1.", "/"),
    ],
)
@pytest.mark.parametrize("path", [None, "/fsx/people"])
def test_existing_homes_need_no_data_stack(
    form: str, name: str, mounted: str, path: str | None, synthesize: Synthesize
) -> None:
    more = f", export_path: {path}" if path else ""
    existing = (
        f"  old:\n    {form}: {{ file_system_id: fs-0123456789abcdef0, security_group_id: sg-0123456789abcdef0{more} }}"
        "\ntraining:"
    )
    before = synthesize(CLUSTER)
    made = synthesize(edited("training:", existing).replace("/fsx: corpus", "/home: old"))
    assert set(made) == set(before)
    assert {one for one in made if made[one] != before[one]} == {"lab-fleet-helpers"}
    template = json.loads(made["lab-fleet-helpers"])
    told = json.dumps(only(template["Resources"], "AWS::EC2::LaunchTemplate"))
    assert name in told
    assert f"{path or mounted} " in told or f"{path or mounted}\\n" in told
    assert {protocol for _, protocol in rules_between(template)} <= {"tcp", "udp"}
    assert "sg-0123456789abcdef0" in made["lab-fleet-helpers"]


def test_a_fleet_that_reads_mounts_and_is_granted_reading_only(synthesize: Synthesize) -> None:
    before = "mounts: { /fsx: corpus }"
    after = f"{before}, read_only_mounts: [/fsx], checkpoints: checkpoints, checkpoint_prefix: trainers, "
    template = json.loads(synthesize(edited(before, f"{after}checkpoints_read_only: true"))["lab-fleet-helpers"])
    told = json.dumps(only(template["Resources"], "AWS::EC2::LaunchTemplate"))
    assert "ro,relatime,flock" in told
    assert "/trainers" in told
    actions = {
        action
        for policy in of_type(template["Resources"], "AWS::IAM::Policy").values()
        for one in policy["Properties"]["PolicyDocument"]["Statement"]
        for action in ([one["Action"]] if isinstance(one["Action"], str) else one["Action"])
    }
    assert {"s3:GetObject", "s3:ListBucket", "kms:Decrypt"} <= actions
    assert not {one for one in actions if "Put" in one or "Delete" in one or "GenerateDataKey" in one}


KEY = "arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
FULL = f"bucket_name: old-checkpoints, encryption_key_arn: '{KEY}', express_bucket_name: old--use1-az4--x-s3"


def existing_checkpoints(options: str) -> str:
    """The cluster file with an existing bucket for the checkpoints of the trainers."""
    text = edited("training:", f"  old:\n    existing_checkpoints: {{ {options} }}\ntraining:")
    return text.replace("checkpoints: checkpoints }\n    second", "checkpoints: old }\n    second")


def granted(template: dict[str, Any]) -> list[dict[str, Any]]:
    """Statements about checkpoints of the policies of roles."""
    return [
        statement
        for policy in of_type(template["Resources"], "AWS::IAM::Policy").values()
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        if "old" in json.dumps(statement["Resource"]) or "kms" in json.dumps(statement["Action"])
    ]


def test_existing_checkpoints_need_no_data_stack(synthesize: Synthesize) -> None:
    before, made = synthesize(CLUSTER), synthesize(existing_checkpoints(FULL))
    assert set(made) == set(before)
    assert {name for name in made if made[name] != before[name]} == {"lab-fleet-trainers"}
    text = made["lab-fleet-trainers"]
    assert "lab-data-checkpoints" not in text
    assert "CHECKPOINT_S3_URI=s3://old-checkpoints/trainers\\n" in text
    assert "CHECKPOINT_EXPRESS_S3_URI=s3://old--use1-az4--x-s3/trainers\\n" in text
    objects, folder, _, listing, key, express = granted(json.loads(text))
    assert {"s3:GetObject", "s3:PutObject", "s3:DeleteObject"} <= set(objects["Action"])
    assert "old-checkpoints/trainers/*" in json.dumps(objects["Resource"])
    assert folder["Action"] == "s3:GetObject", "to ask whether the folder is there"
    assert folder["Resource"] == "arn:aws:s3:::old-checkpoints/trainers"
    assert listing["Condition"] == {"StringLike": {"s3:prefix": "trainers/*"}}
    assert key["Action"] == ["kms:Decrypt", "kms:GenerateDataKey"]
    assert key["Resource"] == KEY
    assert express["Action"] == "s3express:CreateSession"
    assert ":bucket/old--use1-az4--x-s3" in json.dumps(express["Resource"])


def test_existing_checkpoints_without_key_and_express_grant_the_bucket_only(synthesize: Synthesize) -> None:
    text = synthesize(existing_checkpoints("bucket_name: old-checkpoints"))["lab-fleet-trainers"]
    objects, *others = granted(json.loads(text))
    assert "s3:PutObject" in objects["Action"]
    assert [one["Action"] for one in others] == ["s3:GetObject", "s3:GetBucketLocation", "s3:ListBucket"]
    assert "CHECKPOINT_EXPRESS" not in text


def test_policies_of_existing_checkpoints_are_printed_for_their_owner(synthesize: Synthesize) -> None:
    template = json.loads(synthesize(existing_checkpoints(FULL))["lab-fleet-trainers"])
    (role,) = node_roles(template["Resources"])
    value = template["Outputs"]["CheckpointPolicies"]["Value"]
    pieces = value["Fn::Join"][1]
    assert {"Fn::GetAtt": [role, "Arn"]} in pieces
    printed = json.loads("".join(piece if isinstance(piece, str) else "…" for piece in pieces))
    assert set(printed) == {"bucket", "key", "express_bucket"}
    statements = [one for each in printed.values() for one in each]
    for statement, own in zip(statements, granted(template), strict=True):
        assert statement["Effect"] == "Allow"
        assert statement["Principal"] == {"AWS": "…"}
        assert statement["Action"] == own["Action"]
        assert statement.get("Condition") == own.get("Condition")
    assert printed["key"][0]["Resource"] == "*", "a key's policy is about that key"
    assert "CheckpointPolicies" not in json.loads(synthesize(CLUSTER)["lab-fleet-trainers"])["Outputs"]


def test_synthesis_says_that_policies_may_be_wanted(app_factory: Any, tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    told = []
    for text in (CLUSTER, existing_checkpoints(FULL)):
        file.write_text(text, encoding="utf-8")
        app = app_factory()
        build_cluster(app, load_cluster(file))
        made = Path(app.synth().directory).glob("*.json")
        told.append(any("GPU-CKP-020" in one.read_text() for one in made))
    assert told == [False, True]
