"""Stacks of clusters on EKS: the word `orchestrator` is all that changes, and no fleet moves another stack."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shared_assemblies import SharedAssemblies
from stack_fixtures import Resources, of_type, only

EXAMPLES = Path(__file__).parents[2] / "examples"
NODE_GROUP = "AWS::EKS::Nodegroup"
TEMPLATE, CLUSTER = "AWS::EC2::LaunchTemplate", "AWS::EKS::Cluster"

Synthesize = Callable[[str], dict[str, str]]


@pytest.fixture(scope="module")
def synthesize(assemblies_of_files: SharedAssemblies) -> Synthesize:
    """Synthesize the text of a cluster file; the text of each template by stack name."""

    def run(text: str) -> dict[str, str]:
        folder = assemblies_of_files.of(text)
        return {path.name.removesuffix(".template.json"): path.read_text() for path in folder.glob("*.template.json")}

    return run


def example(name: str) -> str:
    return (EXAMPLES / f"{name}.yaml").read_text(encoding="utf-8")


def on_eks(text: str) -> str:
    """The same file, with one word changed."""
    assert "orchestrator:" not in text
    return text + "\norchestrator: eks\n"


def resources(template: str) -> Resources:
    found: Resources = json.loads(template)["Resources"]
    return found


def data_of(found: Resources) -> dict[str, Any]:
    data: dict[str, Any] = only(found, TEMPLATE)["LaunchTemplateData"]
    return data


def test_a_fleet_that_comes_or_goes_leaves_every_other_template_as_it_was(synthesize: Synthesize) -> None:
    text = on_eks(example("two-fleets"))
    whole = synthesize(text)
    more = synthesize(
        text + "inference: { fleets: { chat: { instance_type: g6e.12xlarge, nodes: 1, "
        "server: { image: vllm/vllm-openai:v0.11.0 } } } }\n"
    )

    assert {name: more[name] for name in whole} == whole
    assert len(set(more) - set(whole)) == 1


def test_pods_find_the_nodes_of_a_fleet_by_its_name(synthesize: Synthesize) -> None:
    made = synthesize(example("eks-p5-capacity-block"))
    labels = only(resources(made["llama-pods-fleet-trainers"]), NODE_GROUP)["Labels"]

    assert labels["gpu-cluster/fleet"] == "trainers"
    assert labels["gpu-cluster/efa-count"] == "32"


def test_an_existing_cluster_is_joined_and_none_is_made(synthesize: Synthesize) -> None:
    text = example("eks-g5-dev").replace(
        "  public_access_cidrs: [203.0.113.0/24]\n  admin_principal_arns: [arn:aws:iam::123456789012:role/platform]\n",
        "  existing:\n    cluster_name: research\n    cluster_security_group_id: sg-0123456789abcdef0\n"
        '    kubernetes_version: "1.34"\n',
    )
    made = synthesize(text)
    group = only(resources(made["sandbox-fleet-dev"]), NODE_GROUP)

    assert not [stack for stack, text in made.items() if of_type(resources(text), CLUSTER)]
    assert group["ClusterName"] == "research"


def test_who_reaches_the_api_server_is_what_the_file_says(synthesize: Synthesize) -> None:
    private = only(resources(synthesize(example("eks-p5-capacity-block"))["llama-pods-eks"]), CLUSTER)
    public = only(resources(synthesize(example("eks-g5-dev"))["sandbox-eks"]), CLUSTER)

    assert private["ResourcesVpcConfig"]["EndpointPublicAccess"] is False
    assert private["ResourcesVpcConfig"]["EndpointPrivateAccess"] is True
    assert public["ResourcesVpcConfig"]["PublicAccessCidrs"] == ["203.0.113.0/24"]


APPLY = "eks:\n  software: { apply: true }\n"


def test_the_deployment_installs_charts_and_applies_objects_on_request(synthesize: Synthesize) -> None:
    made = synthesize(example("eks-p5-capacity-block").replace("eks:\n", APPLY))
    plain = synthesize(example("eks-p5-capacity-block"))
    found = resources(made["llama-pods-software"])
    charts = of_type(found, "Custom::AWSCDK-EKS-HelmChart")
    objects = of_type(found, "Custom::AWSCDK-EKS-KubernetesResource")
    texts = json.dumps([one["Properties"]["Manifest"] for one in objects.values()])

    assert {name: made[name] for name in plain} == plain, "software changes no other stack"
    assert [one["Properties"]["Release"] for one in charts.values()] == [
        "nvidia-device-plugin",
        "aws-efa-k8s-device-plugin",
        "dcgm-exporter",
        "jobset",
        "lws",
        "kueue",
    ]
    assert "ClusterQueue" in texts
    assert "PersistentVolume" in texts
    assert '"OutputName": "FileSystemId"' in texts
    assert "${" not in texts, "no variable of the shell is left"


def test_slurm_comes_last_with_the_volumes_of_its_nodes(synthesize: Synthesize) -> None:
    made = synthesize(example("eks-p5-slurm").replace("  software:\n", "  software:\n    apply: true\n"))
    found = resources(made["slurm-pods-software"])
    charts = {one["Properties"]["Release"]: one for one in of_type(found, "Custom::AWSCDK-EKS-HelmChart").values()}
    values = json.dumps(charts["slurm"]["Properties"]["Values"])

    assert list(charts)[-2:] == ["slurm-operator", "slurm"]
    assert '"OutputName": "FileSystemId"' in values
    assert "${" not in values, "no variable of the shell is left"
    assert "Wait" not in charts["slurm"]["Properties"], "its nodes may come later"
    objects = of_type(found, "Custom::AWSCDK-EKS-KubernetesResource")
    assert "ClusterQueue" not in json.dumps([one["Properties"]["Manifest"] for one in objects.values()])


def test_model_servers_are_among_what_the_deployment_applies(synthesize: Synthesize) -> None:
    made = synthesize(example("eks-p4d-mig").replace("eks:\n", APPLY))
    objects = of_type(resources(made["upscale-software"]), "Custom::AWSCDK-EKS-KubernetesResource")

    assert (
        sum(
            '"kind":"Deployment"' in json.dumps(one["Properties"]["Manifest"]).replace('\\"', '"')
            for one in objects.values()
        )
        == 1
    )


WEIGHTS = """
version: 1
name: chat
region: us-east-1
orchestrator: eks
network: { availability_zone: use1-az4, control_availability_zones: [use1-az4, use1-az6] }
inference:
  fleets:
    a:
      instance_type: g6e.xlarge
      nodes: 1
      server: { image: "a/b:1", weights: { s3_uri: "s3://my-models/llama" } }
"""


def test_the_driver_of_volumes_reads_the_weights_that_servers_mount(synthesize: Synthesize) -> None:
    with_weights = synthesize(WEIGHTS)
    without = synthesize(WEIGHTS.replace(', weights: { s3_uri: "s3://my-models/llama" }', ""))
    policies = of_type(resources(with_weights["chat-inference-a"]), "AWS::IAM::Policy").values()
    (allowed,) = (one["Properties"] for one in policies if "my-models" in json.dumps(one))

    # A folder of the bucket, read only, by a policy in the stack of the fleet.
    text = json.dumps(allowed["PolicyDocument"])
    assert "my-models/llama/*" in text
    assert "Put" not in text
    assert "Delete" not in text
    assert "BucketDriverRoleName" in json.dumps(allowed["Roles"])
    assert "my-models" not in with_weights["chat-eks"]
    assert with_weights["chat-eks"] == without["chat-eks"]


def test_the_driver_of_volumes_decrypts_the_weights_with_the_bucket_s_key(synthesize: Synthesize) -> None:
    key = "arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
    text = WEIGHTS.replace('"s3://my-models/llama"', f'"s3://my-models/llama", encryption_key_arn: "{key}"')
    (policy,) = of_type(resources(synthesize(text)["chat-inference-a"]), "AWS::IAM::Policy").values()
    statements = policy["Properties"]["PolicyDocument"]["Statement"]
    (allowed,) = (one for one in statements if one["Resource"] == key)
    assert "kms:Decrypt" in allowed["Action"]


def test_an_autoscaler_goes_when_the_fleet_no_longer_scales(synthesize: Synthesize) -> None:
    scaling = WEIGHTS.replace("nodes: 1", "min_nodes: 1\n      max_nodes: 3").replace("a/b:1", "a/vllm:1")
    text = scaling + "eks: { software: { apply: true } }\n"
    manifests = [
        json.dumps(one["Properties"]["Manifest"])
        for one in resources(synthesize(text)["chat-software"]).values()
        if "Manifest" in one.get("Properties", {})
    ]

    # In a resource of its own, which is deleted as a whole: kubectl prunes no autoscalers.
    (scaler,) = (one for one in manifests if "HorizontalPodAutoscaler" in one)
    assert "PodDisruptionBudget" not in scaler
    assert [one for one in manifests if "PodDisruptionBudget" in one]


def test_nodes_bring_kubectl_for_their_processors(synthesize: Synthesize) -> None:
    program = "{ url: s3://my-tools/kubectl, sha256: " + "ab" * 32 + " }"
    text = example("eks-g5-dev").replace("eks:\n", f"eks:\n  kubectl: {{ x86_64: {program} }}\n")
    for wanted, file in ((True, text), (False, text.replace("x86_64", "arm64"))):
        data = json.dumps(data_of(resources(synthesize(file)["sandbox-fleet-dev"]))["UserData"])
        assert ("s3://my-tools/kubectl" in data) is wanted


def test_members_of_a_team_have_access_entries_and_its_objects_are_applied_on_their_own(
    synthesize: Synthesize,
) -> None:
    member = "arn:aws:iam::123456789012:role/research"
    team = "{ quotas: [{ fleet: trainers, nominal: 64 }], principal_arns: [" + member + "] }"
    text = example("eks-p5-capacity-block").replace(
        "eks:\n", f"eks:\n  software: {{ apply: true }}\n  teams: {{ research: {team} }}\n"
    )
    made = synthesize(text)
    entries = [
        one["Properties"] for one in of_type(resources(made["llama-pods-eks"]), "AWS::EKS::AccessEntry").values()
    ]
    (entry,) = [one for one in entries if one["PrincipalArn"] == member]
    assert (entry["KubernetesGroups"], "AccessPolicies" in entry) == (["gpu-team:research"], False)
    applied = of_type(resources(made["llama-pods-software"]), "Custom::AWSCDK-EKS-KubernetesResource")
    queues, ours = [
        [name for name, one in applied.items() if said in json.dumps(one["Properties"]["Manifest"])]
        for said in ("aws-network-3", "requests.nvidia.com/gpu")
    ]
    assert len(queues) == len(ours) == 1
    assert queues != ours
    assert "gpu-team:research" in json.dumps(applied[ours[0]])
