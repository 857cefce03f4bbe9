"""A cluster of AWS ParallelCluster as a resource of a stack: AWS's provider, and the custom resource that it serves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from cdk_gpu_clusters._cdk import ClusterConstruct, report, resolved_or_none
from cdk_gpu_clusters._values import takes_values
from cdk_gpu_clusters.catalogue.parallelcluster import PARALLELCLUSTER_VERSION
from cdk_gpu_clusters.rules.parallelcluster import check_cluster_name, check_provider, check_removal

_RESOURCE_TYPE = "Custom::PclusterCluster"
_TEMPLATE = (
    "https://{region}-aws-parallelcluster.s3.{region}.{suffix}/parallelcluster/{version}/templates/custom_resource/"
    "cluster.yaml"
)


class ParallelClusterProvider(ClusterConstruct):
    """What makes clusters of AWS ParallelCluster for CloudFormation: AWS's own template, as a nested stack.

    It has a function with ParallelCluster of one version, and makes, updates and deletes clusters of that version only.
    A newer version is another provider and another cluster. One provider serves all clusters of an account and Region.

    A failed update can leave the provider's stack in `UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS`
    (aws/aws-parallelcluster 5686). Prefer `gpu-clusters export` with the `pcluster` command where you can.

    Source: aws/aws-parallelcluster @ 451cc53, cloudformation/custom_resource/cluster.yaml.

    Example:
        >>> operators = iam.Role.from_role_name(stack, "Operators", "cluster-operators")
        >>> provider = ParallelClusterProvider(stack, "Provider", role=operators)
        >>> provider.version
        '3.16.1'

    Attributes:
        version: Its version of ParallelCluster.
        cfn_stack: The nested stack, as an escape hatch.
    """

    @takes_values
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        version: str = PARALLELCLUSTER_VERSION,
        role: iam.IRole | None = None,
        policies: Sequence[iam.IManagedPolicy] = (),
    ) -> None:
        """Define the provider.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            version: Version of ParallelCluster; by default the one for which this library writes configurations.
            role: Role of the function. By default the template makes one that may administer the roles of clusters.
                With `role`, it makes no policies: Lambda must be able to assume the role, which needs ParallelCluster's
                user policies, `AWSLambdaBasicExecutionRole`, and rights to the bucket and function of the provider and
                to rules of EventBridge.
            policies: Further policies of the role that the template makes, such as `iam:PassRole` for roles that a
                configuration names. They have no effect with `role`. None by default.

        Raises:
            ConfigError: None. GPU-PCL-014 and -015 are warnings.
        """
        super().__init__(scope, construct_id)
        report(self, check_provider(version=version, has_role=role is not None))
        self.version: str = version
        stack = cdk.Stack.of(self)
        parameters = {} if role is None else {"CustomLambdaRole": role.role_arn}
        if policies:
            parameters["AdditionalIamPolicies"] = ",".join(policy.managed_policy_arn for policy in policies)
        self.cfn_stack: cdk.CfnStack = cdk.CfnStack(
            self,
            "Resource",
            template_url=_TEMPLATE.format(region=stack.region, suffix=stack.url_suffix, version=version),
            parameters=parameters or None,
        )
        # It holds no data. Clusters that are kept go on without it.
        self.cfn_stack.apply_removal_policy(cdk.RemovalPolicy.DESTROY)

    @property
    def service_token(self) -> str:
        """ARN of its function, known at deployment."""
        return self.cfn_stack.get_att("Outputs.ServiceToken").to_string()


class ParallelCluster(ClusterConstruct):
    """A cluster of AWS ParallelCluster that CloudFormation makes and updates with the stack.

    The cluster is a stack of its own, which the provider makes. It outlives this one. Its name cannot change. The same
    configuration can be run by the `pcluster` command, which is the way that AWS documents first.

    After a creation that failed, a cluster that is kept stops the rollback and the next creation. After an update that
    failed, it stops the deletion of this resource. Run `pcluster delete-cluster` first, then deploy or delete again.
    AWS warns that `pcluster` must not delete a cluster of CloudFormation. One that is kept is the exception:
    CloudFormation never deletes it, and the provider takes a cluster that is gone as deleted. With `DESTROY` until the
    cluster has been made, a creation that fails undoes itself.

    Write the configuration with `gpu-clusters export --to pcluster`, or by hand. CloudFormation passes its numbers and
    truth values as texts, which the schema of ParallelCluster reads.

    Source: aws/aws-parallelcluster @ 451cc53, cloudformation/custom_resource/cluster.yaml: delete, poll; AWS
    ParallelCluster user guide, "AWS CloudFormation custom resource", Warning.

    Example:
        >>> function_role = iam.Role.from_role_name(stack, "FunctionRole", "cluster-operators")
        >>> makes_clusters = ParallelClusterProvider(stack, "MakesClusters", role=function_role)
        >>> cluster = ParallelCluster(
        ...     stack, "Research", cluster_name="research", provider=makes_clusters,
        ...     configuration={
        ...         "Region": "us-east-1",
        ...         "Image": {"Os": "alinux2023"},
        ...         "HeadNode": {
        ...             "InstanceType": "m7i.xlarge", "Networking": {"SubnetId": "subnet-0123456789abcdef0"},
        ...         },
        ...         "Scheduling": {
        ...             "Scheduler": "slurm",
        ...             "SlurmQueues": [{
        ...                 "Name": "train",
        ...                 "ComputeResources": [{"Name": "train", "InstanceType": "g6.12xlarge", "MaxCount": 4}],
        ...                 "Networking": {"SubnetIds": ["subnet-0123456789abcdef0"]},
        ...             }],
        ...         },
        ...     },
        ... )
        >>> cluster.cluster_name
        'research'

    Attributes:
        cluster_name: Its name.
        resource: The custom resource, as an escape hatch.
    """

    @takes_values
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster_name: str,
        configuration: Mapping[str, Any],
        provider: ParallelClusterProvider,
        removal_policy: cdk.RemovalPolicy = cdk.RemovalPolicy.RETAIN,
    ) -> None:
        """Define the cluster.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            cluster_name: Name of the cluster, up to 60 letters, digits and hyphens; up to 40 with accounting.
            configuration: Its configuration, as a file of ParallelCluster has it. Values may be tokens.
            provider: What makes it.
            removal_policy: What the deletion of this resource does: `RETAIN`, the default, keeps the cluster, also one
                whose creation failed. `DESTROY` deletes it with its nodes and jobs. A change of it changes no node.

        Raises:
            ConfigError: GPU-PCL-013. GPU-PCL-016 is a warning.
        """
        super().__init__(scope, construct_id)
        settings = configuration.get("Scheduling", {}).get("SlurmSettings", {})
        known = resolved_or_none(cluster_name)
        is_deleted = removal_policy is cdk.RemovalPolicy.DESTROY
        records_jobs = bool({"Database", "ExternalSlurmdbd"} & settings.keys())
        report(
            self,
            [
                *([] if known is None else check_cluster_name(known, records_jobs=records_jobs)),
                *check_removal(is_deleted=is_deleted),
            ],
        )
        self.cluster_name: str = cluster_name
        self.resource: cdk.CustomResource = cdk.CustomResource(
            self,
            "Resource",
            resource_type=_RESOURCE_TYPE,
            service_token=provider.service_token,
            properties={
                "ClusterName": cluster_name,
                "ClusterConfiguration": configuration,
                "DeletionPolicy": "Delete" if is_deleted else "Retain",
            },
        )
