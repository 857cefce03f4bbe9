"""`eks`: the cluster of Amazon EKS that the fleets join, with `orchestrator: eks`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from cdk_gpu_clusters.catalogue import Architecture
from cdk_gpu_clusters.kubernetes.software.charts import EfaSoftware
from cdk_gpu_clusters.kubernetes.team_quotas import Team, TeamQuota
from cdk_gpu_clusters.rules.eks_cluster import ControlPlaneTier, EgressMode, SupportType
from cdk_gpu_clusters.rules.mig import WHOLE_GPU_RESOURCE

from ._base import AsTuple, Name, SpecModel, Text
from .changes import NO_CHANGE, Resource, changes_with, makes, replaces, updates
from .data import SecurityGroupId
from .inference import CertificateArn
from .monitoring import HostedZoneId
from .network import Cidr
from .slinky import SlinkySpec

KubernetesVersion = Annotated[str, StringConstraints(pattern=r"^1\.[0-9]{2}$")]
PrincipalArn = Annotated[str, StringConstraints(pattern=r"^arn:aws[a-z-]*:iam::[0-9]{12}:(role|user)/.+$")]
RoleArn = Annotated[str, StringConstraints(pattern=r"^arn:aws[a-z-]*:iam::[0-9]{12}:role/.+$")]
#: A host, and where an organisation keeps its copies in it; no scheme, no slash at the end.
Mirror = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]+)?(/[a-z0-9._-]+)*$")]
#: A name of DNS with two labels at least, in lower case.
HostName = Annotated[
    str, StringConstraints(pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?\.)+[a-z]([-a-z0-9]*[a-z0-9])?$", max_length=253)
]

ProgramUrl = Annotated[str, StringConstraints(pattern=r"^(https|s3)://\S+$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class ProgramSpec(SpecModel):
    """A program that nodes fetch at their first boot."""

    url: ProgramUrl = Field(
        description="Where it lies. Nodes read `s3://` with their role, which must be allowed to.",
        examples=["https://dl.k8s.io/release/v1.35.0/bin/linux/amd64/kubectl"],
    )
    sha256: Sha256 = Field(description="Its digest, as in the file beside it.")


class KubectlSpec(SpecModel):
    """kubectl for the nodes, by their processors."""

    x86_64: ProgramSpec | None = Field(default=None, description="For nodes with x86_64 processors.")
    arm64: ProgramSpec | None = Field(default=None, description="For nodes with Arm processors.")

    def of(self, architecture: Architecture) -> ProgramSpec | None:
        """The one for processors; None where the file names none."""
        found: ProgramSpec | None = getattr(self, architecture.value)
        return found


class SystemNodesSpec(SpecModel):
    """The small nodes without accelerators that hold the cluster's own pods."""

    instance_type: Annotated[Text, updates(Resource.SYSTEM_TEMPLATE)] = Field(
        default="m7i.large", description="EC2 instance type."
    )
    nodes: Annotated[int, updates(Resource.SYSTEM_NODES)] = Field(
        default=2, ge=2, le=100, description="Number of nodes, over two zones."
    )


class ControlPlaneSpec(SpecModel):
    """The control plane of a new cluster: what it may cost, and how it works."""

    tier: Annotated[ControlPlaneTier | None, updates(Resource.CONTROL_PLANE)] = Field(
        default=None,
        description="Capacity that EKS provisions for it, at a price. Default: `standard`, which scales by itself.",
    )
    egress_mode: Annotated[EgressMode | None, updates(Resource.CONTROL_PLANE)] = Field(
        default=None,
        description="How it reaches webhooks and identity providers. Default: `AWS_MANAGED`. EKS does not change "
        "`CUSTOMER_ROUTED` back.",
    )
    support_type: Annotated[SupportType, updates(Resource.CONTROL_PLANE)] = Field(
        default="EXTENDED",
        description="When the standard support of the version ends: `EXTENDED` keeps it, and EKS bills more; with "
        "`STANDARD` EKS updates the control plane by itself.",
    )
    pack_devices: Annotated[bool, updates(Resource.CONTROL_PLANE)] = Field(
        default=True,
        description="Whether pods fill one node after the other, so that entire nodes stay free. Devices weigh most; "
        "pods with slices are packed by their CPU and memory.",
    )


class SoftwareSpec(SpecModel):
    """What is installed in the cluster: device plugins, queues, metrics."""

    apply: Annotated[bool, makes(Resource.MORE_ENDPOINTS)] = Field(
        default=False,
        description="Whether deploying installs the charts and manifests, by a function that runs kubectl in the "
        "network. Default: `gpu-clusters manifests` writes them, and you apply them.",
    )
    trainer: Annotated[bool, changes_with("software")] = Field(
        default=False, description="Whether Kubeflow Trainer is part of it."
    )
    ray: Annotated[bool, changes_with("software")] = Field(
        default=False,
        description="Whether KubeRay's operator is part of it, with a place in the queue for the heads of Ray.",
    )
    cluster_autoscaler: Annotated[bool, changes_with("software")] = Field(
        default=False,
        description="Whether the Cluster Autoscaler is part of it, which sizes managed node groups with `min_nodes` "
        "and `max_nodes` by the pods that wait. Only with `apply: true`.",
    )
    slurm: Annotated[SlinkySpec | None, changes_with("software")] = Field(
        default=None,
        description="Slurm on the nodes of training fleets, by Slinky: its operator, and a Slurm cluster. `{}` takes "
        "all defaults. Default: none.",
    )
    compute_domains: Annotated[bool, changes_with("software")] = Field(
        default=False,
        description="Whether NVIDIA's DRA driver is part of it, by which the jobs of UltraServers share memory of GPUs "
        "over NVLink, in a ComputeDomain.",
    )
    efa: Annotated[Literal["device-plugin", "dra-driver"], changes_with("software")] = Field(
        default="device-plugin",
        description="What gives pods EFA interfaces: AWS's device plugin, by number, or its DRA driver, by claims.",
    )
    keda: Annotated[bool, makes(Resource.SCALER_ROLE)] = Field(
        default=False,
        description="Whether KEDA is part of it, and scales model servers of vLLM by their queue and their cache. It "
        "reads the workspace of `monitoring.metrics`.",
    )
    argo_rollouts: Annotated[bool, makes(Resource.CANARY_ROLE)] = Field(
        default=False,
        description="Whether Argo Rollouts is part of it, which tries new versions of fleets with a `canary`. It reads "
        "the workspace of `monitoring.metrics`.",
    )
    mirror: Annotated[Mirror | None, changes_with("software")] = Field(
        default=None,
        description="Registry, with a path if any, that holds copies of all charts and images, for networks without "
        "the internet. Default: the public ones.",
        examples=["111122223333.dkr.ecr.us-east-1.amazonaws.com/mirror"],
    )

    @property
    def efa_software(self) -> EfaSoftware:
        """What gives pods EFA interfaces, as charts and jobs take it."""
        return EfaSoftware(self.efa)

    @property
    def reads_metrics(self) -> bool:
        """Whether a program in the cluster queries the workspace of the metrics."""
        return self.keda or self.argo_rollouts


class TeamQuotaSpec(SpecModel):
    """What a team may use of the devices of one fleet."""

    fleet: Name = Field(description="Name of the fleet.")
    resource: Text = Field(
        default=WHOLE_GPU_RESOURCE,
        description="Name of the device in Kubernetes, which is a slice on a fleet with `mig`.",
        examples=["nvidia.com/mig-1g.5gb"],
    )
    nominal: int = Field(
        ge=0, description="Devices that are the team's whenever it wants them. With 0 the team only borrows."
    )
    borrowing_limit: int | None = Field(
        default=None,
        ge=0,
        description="Most devices over and above, of those that others leave idle. Default: as many as they lend.",
    )
    lending_limit: int | None = Field(
        default=None, ge=0, description="Most of its own idle devices that others may borrow. Default: all of them."
    )


class TeamSpec(SpecModel):
    """A team: a namespace of its own, and what it may use."""

    quotas: Annotated[tuple[TeamQuotaSpec, ...], AsTuple] = Field(
        min_length=1, description="What it may use, by fleet and device. It uses no other devices."
    )
    weight: int = Field(
        default=1, ge=0, description="Its share of idle devices of others, as a ratio to the weights of other teams."
    )
    principal_arns: Annotated[tuple[PrincipalArn, ...], AsTuple] = Field(
        default=(),
        description="IAM roles and users that work in its namespace, in a cluster that is made here. Default: none.",
        examples=[["arn:aws:iam::111122223333:role/research"]],
    )

    def of(self, name: str) -> Team:
        """The team, under the name that the file gives it."""
        quotas = [
            TeamQuota(
                pool=one.fleet,
                resource=one.resource,
                nominal=one.nominal,
                borrowing_limit=one.borrowing_limit,
                lending_limit=one.lending_limit,
            )
            for one in self.quotas
        ]
        return Team(name=name, quotas=tuple(quotas), weight=self.weight)


class HostedZoneSpec(SpecModel):
    """An existing hosted zone of Amazon Route 53."""

    zone_id: HostedZoneId = Field(description="Id of the hosted zone.", examples=["Z0123456789ABCDEFGHIJ"])
    zone_name: HostName = Field(description="Domain of the hosted zone.", examples=["example.org"])


class GatewaySpec(SpecModel):
    """One internal address for the models of `inference`: an Application Load Balancer, with a path for each model."""

    certificate_arn: Annotated[CertificateArn | None, changes_with("gateway")] = Field(
        default=None,
        description="ACM certificate, in the cluster's Region, of the TLS listener on port 443.",
        examples=["arn:aws:acm:us-east-1:111122223333:certificate/1234abcd-12ab-34cd-56ef-1234567890ab"],
    )
    plain_http: Annotated[bool, changes_with("gateway")] = Field(
        default=False, description="True instead of a certificate: port 80, without TLS."
    )
    hostname: Annotated[HostName | None, changes_with("gateway")] = Field(
        default=None,
        description="Name under which clients ask. Default: any name.",
        examples=["models.example.org"],
    )
    clients: Annotated[tuple[Cidr, ...], AsTuple, changes_with("gateway")] = Field(
        default=(), description="IPv4 ranges that may connect; one at least.", examples=[["10.0.0.0/16"]]
    )
    inference_extension: Annotated[bool, changes_with("gateway")] = Field(
        default=False,
        description="Whether requests go to vLLM servers by their queue and cache, through proxies of agentgateway and "
        "an InferencePool for each model. Default: to the server with the fewest open requests.",
    )
    hosted_zone: Annotated[HostedZoneSpec | None, updates(Resource.NAMES_ROLE), makes(Resource.NAMES_ROLE)] = Field(
        default=None,
        description="Hosted zone in which ExternalDNS keeps `hostname`. Default: none; you make the record.",
    )


class ExistingEksSpec(SpecModel):
    """A cluster of Amazon EKS that exists already. Nothing is looked up."""

    cluster_name: Annotated[Text, replaces(Resource.NODE_GROUP, Resource.SCRAPER, Resource.HYPERPOD_CLUSTER)] = Field(
        description="Name of the cluster.", examples=["research"]
    )
    cluster_security_group_id: Annotated[
        SecurityGroupId, updates(Resource.EKS_TEMPLATE), replaces(Resource.SCRAPER, Resource.HYPERPOD_CLUSTER)
    ] = Field(description="The security group that EKS made for it, as describe-cluster shows it.")
    kubernetes_version: Annotated[KubernetesVersion, updates(Resource.NODE_GROUP)] = Field(
        description="Its version, in quotes.", examples=["1.34"]
    )
    service_cidr: Annotated[Cidr, NO_CHANGE] = Field(
        default="172.20.0.0/16", description="IPv4 range of its services, as describe-cluster shows it."
    )
    kubectl_role_arn: Annotated[RoleArn | None, changes_with("existing")] = Field(
        default=None,
        description="Role that may install software in it. Needed only where `software.apply` is true.",
    )
    node_security_group_ids: Annotated[
        tuple[SecurityGroupId, ...], AsTuple, updates(Resource.EKS_TEMPLATE), replaces(Resource.HYPERPOD_CLUSTER)
    ] = Field(
        default=(),
        description="Security groups of its present nodes, if they are not in that of the cluster, such as the node "
        "group of terraform-aws-eks. New nodes join them, too. HyperPod needs EFA's rules in them, which the "
        "deployment adds. Default: none.",
    )
    cni_from_node_role: Annotated[bool, updates(Resource.NODE_ROLE)] = Field(
        default=False,
        description="Whether its VPC CNI takes its permissions from the role of the nodes. Default: the CNI has a role "
        "of its own, by Pod Identity or IRSA.",
    )


class EksSpec(SpecModel):
    """The cluster of Amazon EKS: made here, or an existing one."""

    existing: Annotated[
        ExistingEksSpec | None, updates(Resource.SOFTWARE, Resource.KARPENTER), replaces(Resource.HYPERPOD_CLUSTER)
    ] = Field(
        default=None,
        description="A cluster that exists already. Default: one is made, in a stack of its own.",
    )
    kubernetes_version: Annotated[
        KubernetesVersion | None,
        updates(
            Resource.CONTROL_PLANE, Resource.SYSTEM_NODES, Resource.NODE_GROUP, Resource.SOFTWARE, Resource.KARPENTER
        ),
    ] = Field(
        default=None,
        description="Version of Kubernetes, in quotes. Default: the one that this version of the library is tested "
        "with. A newer one updates the cluster; say it before upgrading the library.",
        examples=["1.34"],
    )
    public_access_cidrs: Annotated[tuple[Cidr, ...], AsTuple, updates(Resource.CONTROL_PLANE)] = Field(
        default=(),
        description="IPv4 ranges that may reach the API server from the internet. Default: none; it is reached "
        "from inside the network only.",
        examples=[["203.0.113.0/24"]],
    )
    admin_principal_arns: Annotated[tuple[PrincipalArn, ...], AsTuple, updates(Resource.ADMINS)] = Field(
        default=(),
        description="IAM roles and users that administer the cluster. Default: none, not even the deploying principal.",
        examples=[["arn:aws:iam::111122223333:role/platform"]],
    )
    control_plane: Annotated[ControlPlaneSpec, NO_CHANGE] = Field(
        default=ControlPlaneSpec(), description="The control plane of the cluster."
    )
    system_nodes: Annotated[SystemNodesSpec, NO_CHANGE] = Field(
        default=SystemNodesSpec(), description="Nodes without accelerators for the cluster's own pods."
    )
    software: Annotated[SoftwareSpec, updates(Resource.SOFTWARE, Resource.KARPENTER, Resource.NODE_GROUP)] = Field(
        default=SoftwareSpec(), description="What is installed in the cluster."
    )
    teams: Annotated[dict[Name, TeamSpec], updates(Resource.SOFTWARE, Resource.ADMINS)] = Field(
        default={},
        description="Teams that share the fleets, by name, each with a namespace and a queue of Kueue. Default: none; "
        "all jobs share one queue.",
    )
    gateway: Annotated[
        GatewaySpec | None, updates(Resource.SOFTWARE), makes(Resource.BALANCER_ROLE, Resource.NAMES_ROLE)
    ] = Field(
        default=None,
        description="One internal address for the models of `inference`, by the AWS Load Balancer Controller. Default: "
        "none; each has a Service inside the cluster.",
    )
    kubectl: Annotated[KubectlSpec, updates(Resource.EKS_TEMPLATE)] = Field(
        default=KubectlSpec(),
        description="kubectl for the nodes, for scripts of yours: EKS's images have none, and the watchdog needs none.",
    )

    @property
    def without_software(self) -> EksSpec:
        """The cluster as HyperPod uses it, which brings software and teams of its own."""
        names = ("software", "teams", "gateway", "kubectl")
        usual = {name: type(self).model_fields[name].get_default() for name in names}
        return self.model_copy(update=usual)

    @property
    def all_teams(self) -> tuple[Team, ...]:
        """The teams, in the order of the file."""
        return tuple(one.of(name) for name, one in self.teams.items())

    @property
    def has_pools(self) -> bool:
        """Whether the servers of each model are an InferencePool."""
        return self.gateway is not None and self.gateway.inference_extension

    @property
    def has_serving_roles(self) -> bool:
        """Whether a stack is made for the roles of what serves models."""
        return self.gateway is not None or self.software.reads_metrics
