"""Whether AWS PCS takes the Slurm cluster, or an existing one matches the file; what AWS ParallelCluster needs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from cdk_gpu_clusters.catalogue import instance_type
from cdk_gpu_clusters.catalogue.parallelcluster import image_names
from cdk_gpu_clusters.rules.pcs import ClusterSize
from cdk_gpu_clusters_stacks.plan.model import SlurmPlan
from cdk_gpu_clusters_stacks.spec.pcs import ExistingPcsSpec
from cdk_gpu_clusters_stacks.spec.planned_fleet import PlannedFleet

from ..call import IMAGES, PARAMETER, PCS_CLUSTER, PCS_CLUSTERS, NoAnswer
from ..check import Inquiry, Verdict, cannot_tell, define_check, failed, passed, warned
from ..cluster import Cluster, fleets_where, words
from .machines import image_of

_API = "AWS PCS API reference"
_NONE_MADE = "no Slurm cluster is made"
_NONE_EXISTS = "the file names no existing Slurm cluster"


def _made(cluster: Cluster) -> Mapping[str, SlurmPlan]:
    plan = cluster.plan.slurm
    return {} if plan is None or plan.stack_name is None else {"pcs": plan}


def _existing(cluster: Cluster) -> Mapping[str, ExistingPcsSpec]:
    found = cluster.spec.pcs.existing
    return {} if found is None or cluster.plan.slurm is None else {"pcs.existing": found}


@define_check(
    "GPU-PRE-181",
    "AWS PCS creates no other cluster now",
    source='AWS PCS user guide, "Service quotas": one cluster in state Creating in a Region at a time',
    calls=(PCS_CLUSTERS,),
    subjects=_made,
    unless=_NONE_MADE,
)
def _none_in_creation(_: SlurmPlan, inquiry: Inquiry) -> Verdict:
    found = inquiry.ask(PCS_CLUSTERS)["clusters"]
    creating = [one["name"] for one in found if one["status"] == "CREATING"]
    if creating:
        return failed(
            f"AWS PCS creates {words(creating)}, and one cluster at a time",
            fix="wait until its state is ACTIVE, then deploy",
        )
    return passed(f"{len(found)} clusters, none in creation")


@define_check(
    "GPU-PRE-182",
    "an existing Slurm cluster is there, and active",
    source=f"{_API}, GetCluster",
    calls=(PCS_CLUSTER,),
    subjects=_existing,
    unless=_NONE_EXISTS,
)
def _cluster_there(existing: ExistingPcsSpec, inquiry: Inquiry) -> Verdict:
    found = inquiry.find(PCS_CLUSTER, clusterIdentifier=existing.cluster_id)
    if found is None:
        return failed(
            f"there is no cluster {existing.cluster_id} of AWS PCS in {inquiry.cluster.region}",
            fix="correct id, Region or profile",
        )
    status = found["cluster"]["status"]
    if status == "ACTIVE":
        return passed(f"{existing.cluster_id} is {status}")
    if status in ("CREATING", "UPDATING", "RESUMING"):
        return warned(f"{existing.cluster_id} is {status}: AWS PCS refuses changes of it meanwhile", fix="wait")
    return failed(f"{existing.cluster_id} is {status}", fix="resume it, or name another cluster")


@define_check(
    "GPU-PRE-183",
    "an existing Slurm cluster matches the file: version, security groups, size",
    source=f"{_API}, GetCluster and CreateCluster",
    calls=(PCS_CLUSTER,),
    subjects=_existing,
    unless=_NONE_EXISTS,
)
def _cluster_as_said(existing: ExistingPcsSpec, inquiry: Inquiry) -> Iterator[Verdict]:
    answer = inquiry.find(PCS_CLUSTER, clusterIdentifier=existing.cluster_id)
    if answer is None:
        raise NoAnswer(f"there is no {existing.cluster_id}", fix="see GPU-PRE-182")
    found = answer["cluster"]
    version, groups = found["scheduler"]["version"], found["networking"].get("securityGroupIds", [])
    if version != existing.slurm_version:
        yield failed(
            f"{existing.cluster_id} has Slurm {version}, the file has {existing.slurm_version}",
            fix=f'slurm_version: "{version}"',
        )
    if not set(groups) & set(existing.security_group_ids):
        yield failed(
            f"{existing.cluster_id} is in {words(groups)}: nodes in other groups do not reach its controller",
            fix=f"security_group_ids: [{', '.join(groups)}]",
        )
    size, nodes = ClusterSize(found["size"]), inquiry.cluster.plan.totals.maximum_nodes
    if nodes > size.nodes:
        yield failed(
            f"{existing.cluster_id} is {size.value}, for {size.nodes} nodes, and the fleets have up to {nodes}",
            fix="name a larger cluster, or smaller fleets: AWS PCS changes no size",
        )


def _images_by_name(cluster: Cluster) -> Mapping[str, str]:
    """The name of the image of the head node of AWS ParallelCluster, at the key of the orchestrator."""
    plan = cluster.plan.parallelcluster
    if plan is None:
        return {}
    fleets = cluster.fleets.values()
    system = next((one.spec.image.os for one in fleets if one.spec.image is not None), "al2023")
    architecture = instance_type(plan.head_node.instance_type).architecture
    return {"orchestrator": f"aws-parallelcluster-{plan.version}-{image_names()[system]}-{architecture.value}*"}


@define_check(
    "GPU-PRE-185",
    "AWS ParallelCluster has an image in the Region",
    source="aws-parallelcluster 3.16.1 on PyPI, aws/ec2.py: get_official_images",
    calls=(IMAGES,),
    subjects=_images_by_name,
    unless="no cluster of AWS ParallelCluster is described",
)
def _has_official_image(name: str, inquiry: Inquiry) -> Verdict:
    wanted = [{"Name": "name", "Values": [name]}]
    found = inquiry.ask(IMAGES, Owners=["amazon"], Filters=wanted, IncludeDeprecated=True)["Images"]
    if found:
        return passed(f"{len(found)} images have the name {name}")
    return failed(
        f"Amazon has no image {name} in {inquiry.cluster.region}: pcluster makes no cluster there",
        fix="choose another Region, or give the configuration an image of pcluster build-image: Image.CustomAmi",
    )


_SAMPLE = re.compile(r"aws-pcs-sample_ami-.+-slurm-(\d\d\.\d\d)")


@define_check(
    "GPU-PRE-184",
    "the image of a fleet has the cluster's version of Slurm, as far as its name shows",
    source='AWS PCS user guide, "Using sample Amazon Machine Images (AMIs) with AWS PCS": names end in the version',
    calls=(PARAMETER, IMAGES),
    subjects=fleets_where(lambda fleet: fleet.profile.joins_slurm),
    unless="no fleet is on AWS PCS",
)
def _image_has_slurm(fleet: PlannedFleet, inquiry: Inquiry) -> Verdict:
    image, version = image_of(fleet, inquiry), fleet.slurm_version
    found = _SAMPLE.match(str(image.get("Name", "")))
    if found is not None and found[1] != version:
        return failed(
            f"{image['ImageId']} has Slurm {found[1]}, the cluster has {version}: its nodes never join",
            fix=f"name an image for Slurm {version}",
        )
    if found is not None:
        return passed(f"{image['ImageId']} has Slurm {version}")
    return cannot_tell(
        f"the name of {image['ImageId']} does not say which version of Slurm and of the agent it has",
        fix=f"see on a node: /opt/aws/pcs/scheduler/slurm-{version} is there, and the agent is 1.5.0-1 or later",
    )
