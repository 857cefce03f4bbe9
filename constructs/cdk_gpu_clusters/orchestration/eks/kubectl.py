"""The function of CDK that runs kubectl and Helm in the network of a cluster when a stack is deployed."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct, IConstruct

from cdk_gpu_clusters._accepted import AcceptedFinding, named_resource
from cdk_gpu_clusters._cdk import known, path_of
from cdk_gpu_clusters.catalogue.kubernetes import DEFAULT_KUBERNETES_VERSION
from cdk_gpu_clusters.errors import ConfigError
from cdk_gpu_clusters.orchestration.eks.cluster_base import IEksGpuCluster
from cdk_gpu_clusters.rules.eks_cluster import kubectl_versions, no_kubectl

if TYPE_CHECKING:  # takes long to load
    from aws_cdk import aws_lambda as lambda_

_FUNCTIONS = AcceptedFinding(
    cause="`KubernetesSoftware`: the two functions of CDK that run kubectl and Helm",
    reason="CDK makes them and chooses their runtimes; CloudFormation calls them one at a time, and sees each failure.",
    aws_solutions=("L1",),
    nist_hipaa=("LambdaConcurrency", "LambdaDLQ"),
)
_FUNCTION_LOGS = AcceptedFinding(
    cause="`KubernetesSoftware`: log groups of the two functions of CDK",
    reason="CloudWatch Logs encrypts every log group; CDK makes these without a key.",
    nist_hipaa_pci=("CloudWatchLogGroupEncrypted",),
)
_FRAMEWORK = AcceptedFinding(
    cause="`KubernetesSoftware`: role of the function through which CloudFormation calls the other",
    reason="CDK writes its policy with the role: it calls that one function, in any version.",
    aws_solutions=("IAM5",),
    nist_hipaa_pci=("IAMNoInlinePolicy",),
)
_MANAGED_POLICIES = AcceptedFinding(
    cause="`KubernetesSoftware`: roles of its functions",
    reason="AWS keeps what a function in a VPC, and a pull from Amazon ECR, need in managed policies.",
    aws_solutions=("IAM4",),
)
_PUBLIC_CHARTS = AcceptedFinding(
    cause="`KubernetesSoftware`: policy of the function that runs kubectl and Helm",
    reason="The two actions that log in to the public registry of Amazon ECR have no resource level.",
    aws_solutions=("IAM5",),
)
_FOR_FUNCTIONS = ("service-role/AWSLambdaBasicExecutionRole", "service-role/AWSLambdaVPCAccessExecutionRole")
_FOR_CHARTS = "AmazonEC2ContainerRegistryPullOnly"


class Kubectl(Construct):
    """Runs kubectl and Helm against a cluster, from inside its network.

    Attributes:
        handle: The cluster as CDK's `HelmChart` and `KubernetesManifest` take it.
        access: What gives the function its rights in the cluster; None where its role had them before.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: IEksGpuCluster,
        subnets: Sequence[ec2.ISubnet],
        kubectl_layer: lambda_.ILayerVersion | None,
    ) -> None:
        """Define the function.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            cluster: The cluster.
            subnets: Private subnets in which it runs.
            kubectl_layer: Layer with kubectl and Helm; the one of an installed package if left out.

        Raises:
            ConfigError: GPU-EKS-027.
        """
        super().__init__(scope, construct_id)
        given = cluster.kubectl_role_arn
        # Neither role is CDK's to change: it would give them policies in line, and more than they need.
        role = (
            iam.Role.from_role_arn(self, "Role", given, mutable=False)
            if given is not None
            else _role(self, cluster).without_policy_updates()
        )
        provider = eks.KubectlProvider(
            self,
            "Provider",
            cluster=_as_cdk_has_it(self, "Cluster", cluster),
            kubectl_layer=kubectl_layer or _installed_layer(self, cluster.kubernetes_version),
            private_subnets=list(subnets),
            security_groups=[cluster.cluster_security_group],
            role=role,
        )
        self.node.try_remove_child("HasEcrPublic")  # a condition of the policies that it did not add
        _accept(provider)
        self.handle: eks.ICluster = _as_cdk_has_it(self, "Handle", cluster, provider)
        self.access: IConstruct | None = cluster.grant_admin(role) if given is None else None


def _role(scope: Construct, cluster: IEksGpuCluster) -> iam.Role:
    """A role that may find the cluster, run in a VPC, and read charts from Amazon ECR."""
    policy = iam.ManagedPolicy(
        scope,
        "Policy",
        document=iam.PolicyDocument.from_json(
            {
                "Statement": [
                    {"Effect": "Allow", "Action": "eks:DescribeCluster", "Resource": cluster.cluster_arn},
                    {
                        "Effect": "Allow",
                        "Action": ["ecr-public:GetAuthorizationToken", "sts:GetServiceBearerToken"],
                        "Resource": "*",
                    },
                ]
            }
        ),
    )
    _PUBLIC_CHARTS.at(policy, "Resource::*")
    names = (*_FOR_FUNCTIONS, _FOR_CHARTS)
    role = iam.Role(
        scope,
        "Role",
        assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
        managed_policies=[*(iam.ManagedPolicy.from_aws_managed_policy_name(name) for name in names), policy],
    )
    _accept_policies(role, *names)
    return role


def _as_cdk_has_it(
    scope: Construct,
    construct_id: str,
    cluster: IEksGpuCluster,
    provider: eks.IKubectlProvider | None = None,
) -> eks.ICluster:
    """The cluster as an imported one of CDK, so that one made here and an existing one are the same."""
    return eks.Cluster.from_cluster_attributes(
        scope,
        construct_id,
        cluster_name=cluster.cluster_name,
        vpc=cluster.vpc,
        kubectl_provider=provider,
    )


def _installed_layer(scope: Construct, kubernetes_version: str) -> lambda_.ILayerVersion:
    for version in kubectl_versions(known(kubernetes_version) or DEFAULT_KUBERNETES_VERSION):
        minor = version.partition(".")[2]
        try:
            package = import_module(f"aws_cdk.lambda_layer_kubectl_v{minor}")
        except ModuleNotFoundError:
            continue
        layer: lambda_.ILayerVersion = getattr(package, f"KubectlV{minor}Layer")(scope, "Layer")
        return layer
    raise ConfigError([no_kubectl(kubernetes_version).at(path_of(scope))])


def _accept(provider: eks.KubectlProvider) -> None:
    from aws_cdk import aws_lambda as lambda_

    handler = provider.node.find_child("Handler")
    assert isinstance(handler, lambda_.Function)  # noqa: S101 - CDK's own promise
    framework = provider.node.find_child("Provider").node.find_child("framework-onEvent")
    for function in (handler, framework):
        _FUNCTIONS.at(function)
        logs = function.node.try_find_child("LogGroup")
        if logs is not None:  # a feature flag
            _FUNCTION_LOGS.at(logs)
    role = framework.node.find_child("ServiceRole")
    _accept_policies(role, *_FOR_FUNCTIONS)
    _FRAMEWORK.at(
        role.node.find_child("DefaultPolicy"), named_resource(provider, f"{handler.function_arn}:*")
    )


def _accept_policies(role: IConstruct, *names: str) -> None:
    _MANAGED_POLICIES.at(role, *(f"Policy::arn:<AWS::Partition>:iam::aws:policy/{name}" for name in names))
