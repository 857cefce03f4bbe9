"""Node files that come from S3: the asset, who may read it, and what the user data says of it."""

from __future__ import annotations

import hashlib
import io
import json
import shlex
import tarfile
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk.assertions import Template

from cdk_gpu_clusters import (
    ConfigError,
    GpuFleet,
    InferenceFleet,
    MigLayout,
    ModelServer,
    NodeFile,
    NodeRole,
)
from stack_fixtures import Resources, Site, SiteFactory, node_roles, of_type, only

TEMPLATE = "AWS::EC2::LaunchTemplate"
GROUP = "AWS::AutoScaling::AutoScalingGroup"
POLICY = "AWS::IAM::ManagedPolicy"
BUCKET = {"Fn::Sub": "cdk-hnb659fds-assets-${AWS::AccountId}-${AWS::Region}"}
SEVENTHS = MigLayout(["1g.5gb"] * 7)


class Lustre:
    """A file system that is there already."""

    def __init__(self, dns_name: str, mount_name: str = "abcdbev") -> None:
        self.dns_name, self.mount_name = dns_name, mount_name


def stores() -> dict[str, Lustre]:
    return {
        "/fsx": Lustre("fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com"),
        "/models": Lustre(cdk.Fn.import_value("models-dns"), cdk.Fn.import_value("models-mount")),
    }


def network(stack: cdk.Stack) -> ec2.IVpc:
    return ec2.Vpc.from_vpc_attributes(
        stack, "Vpc", vpc_id="vpc-0123456789abcdef0", availability_zones=["us-east-1a"],
        private_subnet_ids=["subnet-0123456789abcdef0"], private_subnet_route_table_ids=["rtb-0123456789abcdef0"],
    )  # fmt: skip


def fleet(scope: Any, vpc: ec2.IVpc, name: str = "Fleet", **options: Any) -> GpuFleet:
    given: dict[str, Any] = {"instance_type": "g6.xlarge", "node_count": 1, "vpc": vpc}
    return GpuFleet(scope, name, **(given | options))


def service(site: Site, **options: Any) -> InferenceFleet:
    given: dict[str, Any] = {
        "vpc": site.vpc, "instance_type": "p4d.24xlarge", "mig": SEVENTHS, "min_node_count": 1, "plain_http": True,
        "server": ModelServer(image="vllm/vllm-openai:v0.11.0", environment={"HF_HOME": "/fsx/huggingface"}),
        "mounts": stores(),
    }  # fmt: skip
    return InferenceFleet(site.stack, "Chat", **(given | options))


def user_data(resources: Resources) -> str:
    encoded = only(resources, TEMPLATE)["LaunchTemplateData"]["UserData"]["Fn::Base64"]
    parts = [encoded] if isinstance(encoded, str) else encoded["Fn::Join"][1]
    return "".join(part if isinstance(part, str) else json.dumps(part) for part in parts)


def fetched(resources: Resources) -> list[str]:
    """Bucket, key and digest that the node fetches; nothing where all files are in the user data."""
    lines = [line.strip() for line in user_data(resources).splitlines() if "GPU_SOFTWARE_" in line]
    return [shlex.split(line)[0].partition("=")[2] for line in lines]


def reads(resources: Resources) -> list[dict[str, Any]]:
    return [
        statement
        for policy in of_type(resources, POLICY).values()
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        if "s3:" in json.dumps(statement["Action"])
    ]


def assets(folder: str | Path, stack: str = "Site") -> dict[str, dict[str, Any]]:
    """The file assets of a stack without its template, by hash."""
    manifest = json.loads(Path(folder, f"{stack}.assets.json").read_text())
    return {
        key: asset for key, asset in manifest["files"].items() if not asset["source"]["path"].endswith(".template.json")
    }


def test_56_servers_on_56_slices_with_two_file_systems(site: Site) -> None:
    made = service(site)
    asset = made.fleet.node_asset
    resources = site.resources()
    text = user_data(resources)
    assert len(text) < 16_384 - 4_096
    assert fetched(resources) == [json.dumps(BUCKET), asset.object_key, asset.sha256]
    assert "systemctl start --no-block gpu-mig" in text
    assert "/models " in text


def test_the_asset_is_in_the_assembly_and_named_by_its_bytes(site: Site) -> None:
    made = service(site).fleet.node_asset
    site.app.synth()
    (asset,) = assets(site.app.outdir).values()
    content = Path(site.app.outdir, asset["source"]["path"]).read_bytes()
    assert hashlib.sha256(content).hexdigest() == made.sha256
    assert asset["source"]["packaging"] == "file"
    assert [one["objectKey"] for one in asset["destinations"].values()] == [made.object_key]
    assert asset["displayName"] == "Site/Chat/Fleet/Software"
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        assert "usr/local/libexec/gpu-cluster/model-servers" in tar.getnames()


def test_the_role_reads_that_object_and_nothing_else(site: Site) -> None:
    made = service(site)
    resources = site.resources()
    key = f"/{made.fleet.node_asset.object_key}"
    (read,) = reads(resources)
    assert read == {
        "Action": "s3:GetObject",
        "Effect": "Allow",
        "Resource": {"Fn::Join": ["", ["arn:", {"Ref": "AWS::Partition"}, ":s3:::", BUCKET, key]]},
    }
    (name,) = [name for name, policy in of_type(resources, POLICY).items() if "s3:GetObject" in json.dumps(policy)]
    # The group needs the template, that the instance profile, that the role, and so no node fetches before it may.
    (role,) = node_roles(resources).values()
    assert {"Ref": name} in role["Properties"]["ManagedPolicyArns"]


def test_two_synths_give_the_same_object(make_site: SiteFactory) -> None:
    sites = [make_site(), make_site()]
    made = [service(site).fleet.node_asset for site in sites]
    assert made[0].sha256 == made[1].sha256
    assert sites[0].template() == sites[1].template()
    assert assets(sites[0].app.outdir) == assets(sites[1].app.outdir)


def test_fleets_without_late_files_of_their_own_share_one_object_and_one_policy(site: Site) -> None:
    first, second = (fleet(site.stack, site.vpc, name) for name in ("First", "Second"))
    assert first.node_asset is second.node_asset
    resources = site.resources()
    (read,) = reads(resources)
    assert json.dumps(read["Resource"]).endswith(f'/{first.node_asset.object_key}"]]}}')
    (policy,) = [name for name, found in of_type(resources, POLICY).items() if "s3:" in json.dumps(found)]
    roles = node_roles(resources).values()
    assert [{"Ref": policy} in role["Properties"]["ManagedPolicyArns"] for role in roles] == [True, True]
    assert len(assets(site.app.outdir)) == 1


def test_every_stack_and_app_has_the_same_object(make_site: SiteFactory) -> None:
    site = make_site()
    other = cdk.Stack(site.app, "Other")
    made = [fleet(site.stack, site.vpc), fleet(other, network(other), instance_type="p5.48xlarge")]
    assert made[0].node_asset.sha256 == made[1].node_asset.sha256
    assert made[0].node_asset.object_key == made[1].node_asset.object_key


def test_files_of_ones_own_change_no_logical_id_but_those_of_their_object(make_site: SiteFactory) -> None:
    def resources(*files: NodeFile) -> Resources:
        site = make_site()
        fleet(site.stack, site.vpc, node_files=files)
        return site.resources()

    own = resources(NodeFile(path="/etc/app.conf", text="a", early=False))
    common = resources(NodeFile(path="/etc/app.conf", text="a"))
    (policy,) = own.keys() - common.keys()
    assert policy.startswith("FleetSoftwareRead")
    (other,) = common.keys() - own.keys()
    assert other.startswith("GpuNodeSoftwareRead")


def test_a_changed_file_is_another_object_and_another_version_of_the_same_template(
    make_site: SiteFactory,
) -> None:
    def resources(text: str) -> Resources:
        site = make_site()
        file = NodeFile(path="/etc/app.conf", text=text, early=False)
        fleet(site.stack, site.vpc, node_files=[file])
        return site.resources()

    before, after = resources("a"), resources("b")
    assert before.keys() == after.keys()
    assert {before[key]["Type"] for key in before if before[key] != after[key]} == {TEMPLATE, POLICY}


def test_fleets_with_the_same_files_have_an_object_each(site: Site) -> None:
    files = [NodeFile(path="/etc/app.conf", text="a", early=False)]
    first, second = (fleet(site.stack, site.vpc, name, node_files=files) for name in ("First", "Second"))
    directory = site.app.synth().directory
    keys = {one["objectKey"] for asset in assets(directory).values() for one in asset["destinations"].values()}
    assert keys == {first.node_asset.object_key, second.node_asset.object_key}
    assert first.node_asset.sha256 == second.node_asset.sha256
    assert len(keys) == 2, "the end of its name limits who reads it"


def test_other_fleets_of_the_app_change_neither_the_choice_nor_the_template(make_site: SiteFactory) -> None:
    def template(others: int) -> dict[str, Any]:
        site = make_site()
        stack = cdk.Stack(site.app, "Other")
        for number in range(others):
            cdk.CfnOutput(stack, f"Output{number}", value=cdk.Fn.import_value(f"other-{number}"))
        service(site)
        return site.template()

    assert template(0) == template(300)


def test_a_stack_of_a_stage_finds_its_file(app_factory: Any) -> None:
    app = app_factory()
    stage = cdk.Stage(app, "Production")
    stack = cdk.Stack(stage, "Training")
    made = fleet(stack, network(stack))
    directory = app.synth().get_nested_assembly("assembly-Production").directory
    (asset,) = assets(directory, stack.artifact_id).values()
    content = Path(directory, asset["source"]["path"]).read_bytes()
    assert hashlib.sha256(content).hexdigest() == made.node_asset.sha256


def test_an_unstaged_file_is_found_by_the_cli(make_site: SiteFactory) -> None:
    site = make_site(context={"aws:cdk:disable-asset-staging": True})
    made = fleet(site.stack, site.vpc)
    site.app.synth()
    (asset,) = assets(site.app.outdir).values()
    content = Path(site.app.outdir, asset["source"]["path"]).read_bytes()
    assert hashlib.sha256(content).hexdigest() == made.node_asset.sha256


@pytest.mark.parametrize(("region", "partition"), [("us-gov-west-1", "aws-us-gov"), ("cn-north-1", "aws-cn")])
def test_other_partitions(make_site: SiteFactory, region: str, partition: str) -> None:
    site = make_site(env=cdk.Environment(account="123456789012", region=region))
    made = fleet(site.stack, site.vpc, instance_type="g4dn.xlarge")
    (read,) = reads(site.resources())
    bucket = f"cdk-hnb659fds-assets-123456789012-{region}"
    assert read["Resource"] == f"arn:{partition}:s3:::{bucket}/{made.node_asset.object_key}"
    ((place,),) = [list(found["destinations"].values()) for found in assets(site.app.outdir).values()]
    assert (place["region"], place["bucketName"]) == (region, bucket)


def test_a_bucket_and_a_prefix_of_ones_own(app_factory: Any) -> None:
    stack = cdk.Stack(
        app_factory(), "Site",
        synthesizer=cdk.DefaultStackSynthesizer(file_assets_bucket_name="my-assets", bucket_prefix="nodes/"),
    )  # fmt: skip
    made = fleet(stack, network(stack))
    resources = Template.from_stack(stack).to_json()["Resources"]
    assert fetched(resources)[:2] == ["my-assets", made.node_asset.object_key]
    assert made.node_asset.object_key.startswith("nodes/")
    assert json.dumps(reads(resources)[0]["Resource"]).endswith(f':s3:::my-assets/{made.node_asset.object_key}"]]}}')


def test_a_stack_that_takes_no_assets_says_so(app_factory: Any) -> None:
    stack = cdk.Stack(app_factory(), "Site", synthesizer=cdk.BootstraplessSynthesizer())
    with pytest.raises(ConfigError) as caught:
        fleet(stack, network(stack))
    (finding,) = caught.value.findings
    assert (finding.id, finding.path) == ("GPU-UD-007", "Site/GpuNodeSoftware")
    assert "BootstraplessSynthesizer" in finding.cause
    assert "CliCredentialsStackSynthesizer" in finding.fix


def test_a_bucket_of_ones_own_needs_no_bootstrap(app_factory: Any) -> None:
    synthesizer = cdk.CliCredentialsStackSynthesizer(file_assets_bucket_name="my-assets")
    stack = cdk.Stack(app_factory(), "Site", synthesizer=synthesizer)
    made = fleet(stack, network(stack))
    assert fetched(Template.from_stack(stack).to_json()["Resources"])[:2] == [
        "my-assets",
        made.node_asset.object_key,
    ]


def test_roles_of_ones_own_get_the_right_too(site: Site) -> None:
    shared = NodeRole(site.stack, "Shared")
    given = iam.Role.from_role_name(site.stack, "Given", "nodes")
    for name, role in (("First", shared), ("Second", shared), ("Third", given)):
        fleet(site.stack, site.vpc, name, role=role)
    resources = site.resources()
    ((name, policy),) = [
        (name, policy["Properties"])
        for name, policy in of_type(resources, POLICY).items()
        if "s3:GetObject" in json.dumps(policy)
    ]
    (role_id,) = node_roles(resources)
    assert policy["Roles"] == [{"Ref": role_id}, "nodes"]
    waits = [name in group["DependsOn"] for group in of_type(resources, GROUP).values()]
    assert waits == [True] * 3, "a node may fetch before it may read"


class Keyed(cdk.StackSynthesizer):
    """A synthesizer whose bucket has a key that is not open to the account."""

    KEY = "arn:aws:kms:us-east-1:123456789012:key/01234567-89ab-cdef-0123-456789abcdef"

    # jsii gives the source as one argument, against the signature.
    def add_file_asset(self, source: cdk.FileAssetSource) -> cdk.FileAssetLocation:  # type: ignore[override]
        return cdk.FileAssetLocation(
            bucket_name="my-assets", object_key=source.source_hash, http_url="https://x", s3_object_url="s3://x",
            kms_key_arn=self.KEY,
        )  # fmt: skip

    def add_docker_image_asset(self, **_: Any) -> cdk.DockerImageAssetLocation:
        raise NotImplementedError

    def synthesize(self, session: cdk.ISynthesisSession) -> None:
        self._synthesize_stack_template(self._bound_stack, session)
        self._emit_stack_artifact(self._bound_stack, session)


def test_a_bucket_whose_key_the_synthesizer_names(app_factory: Any) -> None:
    synthesizer: Any = Keyed()
    stack = cdk.Stack(app_factory(), "Site", synthesizer=synthesizer)
    fleet(stack, network(stack))
    policies = of_type(Template.from_stack(stack).to_json()["Resources"], POLICY).values()
    (policy,) = [one for one in policies if "s3:GetObject" in json.dumps(one)]
    statement = policy["Properties"]["PolicyDocument"]["Statement"][1]
    assert statement == {"Action": "kms:Decrypt", "Effect": "Allow", "Resource": Keyed.KEY}
