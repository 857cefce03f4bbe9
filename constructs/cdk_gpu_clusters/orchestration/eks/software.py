"""Charts and manifests in a cluster of EKS, as part of a deployment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct, IConstruct, IDependable

from cdk_gpu_clusters._accepted import AcceptedFinding, named_resource
from cdk_gpu_clusters._cdk import ClusterConstruct, path_of, resolved_or_none
from cdk_gpu_clusters.catalogue.kubernetes import DEFAULT_KUBERNETES_VERSION
from cdk_gpu_clusters.compute.fleet_network import select_subnets
from cdk_gpu_clusters.errors import ConfigError
from cdk_gpu_clusters.kubernetes.software import ChartRelease
from cdk_gpu_clusters.orchestration.eks.cluster_base import IEksGpuCluster
from cdk_gpu_clusters.rules.eks_cluster import kubectl_versions, no_kubectl

if TYPE_CHECKING:
    from aws_cdk import aws_lambda as lambda_

# A function of Lambda runs for 15 minutes; Helm has to end before it.
_HELM_TIMEOUT_MINUTES = 10
# Their pods run on nodes that may be down, or not there yet: a deployment does not wait for them.
_ON_NODES_WITH_DEVICES = frozenset(
    {"nvidia-device-plugin", "aws-efa-k8s-device-plugin", "aws-dranet", "dcgm-exporter", "slurm"}
)


class KubernetesSoftware(ClusterConstruct):
    """What runs in a cluster beside the add-ons of EKS: charts and manifests, applied when the stack is deployed.

    A function in the private subnets of the cluster's network runs Helm and kubectl, so that a private endpoint is
    enough. It administers the cluster, by an access entry, or by the role of an existing cluster. Each step waits for
    the one before it, and is undone when its line goes.

    It needs `pip install "cdk-gpu-clusters[eks]"`, and ways out of its subnets: to AWS (EKS, STS, Lambda, S3, and ECR
    for charts there), and to the repositories of the charts unless they come from a mirror. `gpu-clusters manifests`
    writes the same as files, for those who apply them otherwise.

    Source: aws-cdk-lib 2.275, aws_eks_v2: KubectlProvider, HelmChart, KubernetesManifest.

    Example:
        >>> from cdk_gpu_clusters import EksGpuCluster, KubernetesSoftware
        >>> from cdk_gpu_clusters.kubernetes.node_pool import node_pool
        >>> from cdk_gpu_clusters.kubernetes.software import cluster_software
        >>> pool = node_pool("train", instance_type="p5.48xlarge", node_count=2)
        >>> cluster = EksGpuCluster(stack, "ClusterWithSoftware", vpc=two_zone_vpc)
        >>> software = KubernetesSoftware(stack, "Software", cluster=cluster, releases=cluster_software([pool]))
        >>> namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "research"}}
        >>> manifest = software.apply("Research", [namespace])

    Attributes:
        cluster: The cluster.
        kubectl: The function that applies everything.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: IEksGpuCluster,
        releases: Iterable[ChartRelease] = (),
        vpc_subnets: ec2.SubnetSelection | None = None,
        kubectl_layer: lambda_.ILayerVersion | None = None,
        service_token: str | None = None,
    ) -> None:
        """Define the function, and install charts.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            cluster: The cluster.
            releases: Charts, in the order in which they are installed.
            vpc_subnets: Private subnets of the function; those of the control plane if left out, and the private ones
                of an existing cluster's network.
            kubectl_layer: Layer with kubectl and Helm; the one of an installed package if left out.
            service_token: `kubectl.service_token` of another stack, whose function applies everything; a function is
                defined if left out. CloudFormation refuses another one later.

        Raises:
            ConfigError: GPU-EKS-027.
        """
        super().__init__(scope, construct_id)
        self.cluster: IEksGpuCluster = cluster
        self.kubectl: Kubectl | SharedKubectl
        if service_token is None:
            subnets = cluster.subnets if vpc_subnets is None else select_subnets(cluster.vpc, vpc_subnets).subnets
            self.kubectl = Kubectl(self, "Kubectl", cluster=cluster, subnets=subnets, kubectl_layer=kubectl_layer)
        else:
            self.kubectl = SharedKubectl(self, "Kubectl", cluster=cluster, service_token=service_token)
        access = [] if self.kubectl.access is None else [self.kubectl.access]
        self._before: list[IDependable] = [*access, *cluster.workload_prerequisites]
        for release in releases:
            self.install(release)

    def install(self, release: ChartRelease, *, after: Sequence[IDependable] = ()) -> eks.HelmChart:
        """Install a chart, or bring it up to date; it goes when this line goes.

        Args:
            release: The chart with its values.
            after: What has to exist before its first pod, such as the association of a role with it.
        """
        made = eks.HelmChart(
            self,
            release.name,
            cluster=self.kubectl.handle,
            chart=release.chart,
            release=release.name,
            repository=release.repository,
            version=release.version,
            namespace=release.namespace,
            values=dict(release.values),
            wait=release.chart not in _ON_NODES_WITH_DEVICES,
            timeout=cdk.Duration.minutes(_HELM_TIMEOUT_MINUTES),
        )
        made.node.add_dependency(*after)
        self._after_what_was_before(made)
        return made

    def apply(self, construct_id: str, objects: Sequence[Mapping[str, Any]]) -> eks.KubernetesManifest:
        """Apply objects; all are deleted with this line.

        Of objects that go from the list only those of kinds that kubectl prunes by itself are deleted (core kinds,
        Deployments and Jobs among them; no autoscalers, disruption budgets or custom kinds). Delete others by hand, or
        apply them by a line of their own.

        Args:
            construct_id: Id below this construct.
            objects: Kubernetes objects, as their JSON has them.
        """
        made = eks.KubernetesManifest(
            self,
            construct_id,
            cluster=self.kubectl.handle,
            manifest=[dict(one) for one in objects],
            overwrite=True,  # what `install.sh` made before is taken over
        )
        self._after_what_was_before(made)
        return made

    def label(self, construct_id: str, resource: str, name: str, *, value: str, otherwise: str) -> eks.KubernetesPatch:
        """Set a label of an object that is there already, such as the namespace `default`.

        Args:
            construct_id: Id below this construct.
            resource: The object, as `kubectl patch` names it, such as `namespace/default`.
            name: Name of the label.
            value: Its value.
            otherwise: Its value when this line goes.
        """
        made = eks.KubernetesPatch(
            self,
            construct_id,
            cluster=self.kubectl.handle,
            resource_name=resource,
            apply_patch={"metadata": {"labels": {name: value}}},
            restore_patch={"metadata": {"labels": {name: otherwise}}},
        )
        self._after_what_was_before(made)
        return made

    def _after_what_was_before(self, step: Construct) -> None:
        step.node.add_dependency(*self._before)
        self._before = [step]


# The function of CDK that runs kubectl and Helm in the network of a cluster when a stack is deployed.

_FUNCTIONS = AcceptedFinding(
    cause="`KubernetesSoftware`: the two functions of CDK that run kubectl and Helm",
    reason="CDK makes them and chooses runtimes, memory and tracing; CloudFormation calls them one at a time, and sees "
    "each failure.",
    aws_solutions=("L1",),
    nist_hipaa=("LambdaConcurrency", "LambdaDLQ"),
    serverless=("LambdaDLQ", "LambdaDefaultMemorySize", "LambdaLatestVersion", "LambdaTracing"),
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
        service_token: By which other stacks use the function.
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
        self.service_token: str = provider.service_token
        self.access: IConstruct | None = cluster.grant_admin(role) if given is None else None


class SharedKubectl(Construct):
    """The function of another stack that runs kubectl and Helm against a cluster.

    Attributes:
        handle: The cluster as CDK's `HelmChart` and `KubernetesManifest` take it.
        service_token: By which other stacks use the function.
        access: None: the other stack gives the function its rights.
    """

    access: None = None

    def __init__(self, scope: Construct, construct_id: str, *, cluster: IEksGpuCluster, service_token: str) -> None:
        """Name the function."""
        super().__init__(scope, construct_id)
        self.service_token: str = service_token
        provider = eks.KubectlProvider.from_kubectl_provider_attributes(self, "Provider", service_token=service_token)
        self.handle: eks.ICluster = _as_cdk_has_it(self, "Handle", cluster, provider)


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
    for version in kubectl_versions(resolved_or_none(kubernetes_version) or DEFAULT_KUBERNETES_VERSION):
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
    _FRAMEWORK.at(role.node.find_child("DefaultPolicy"), named_resource(provider, f"{handler.function_arn}:*"))


def _accept_policies(role: IConstruct, *names: str) -> None:
    _MANAGED_POLICIES.at(role, *(f"Policy::arn:<AWS::Partition>:iam::aws:policy/{name}" for name in names))
