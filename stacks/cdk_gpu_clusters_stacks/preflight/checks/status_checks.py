"""Application status checks of the account that would watch the cluster's nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cdk_gpu_clusters_stacks.spec.planned_fleet import PlannedFleet

from ..call import STATUS_CHECK_TARGETS, STATUS_CHECKS
from ..check import Inquiry, Verdict, define_check, failed, passed, warned
from ..cluster import CLUSTER_TAG, Cluster, words


def _fleets(cluster: Cluster) -> Mapping[str, PlannedFleet]:
    """Those whose nodes are instances of the account."""
    return {where: fleet for where, fleet in cluster.fleets.items() if not fleet.profile.joins_hyperpod}


@define_check(
    "GPU-PRE-171",
    "no application status check of the account watches the nodes by a tag",
    source='EC2 Auto Scaling guide, "Use application status checks with an Auto Scaling group": it terminates '
    "instances that a check reports as impaired; EC2 API reference, AssociateApplicationStatusCheck",
    calls=(STATUS_CHECKS, STATUS_CHECK_TARGETS),
    subjects=_fleets,
    unless="SageMaker launches all nodes in an account of its own",
)
def _watched(fleet: PlannedFleet, inquiry: Inquiry) -> Iterator[Verdict]:
    checks = {one["ApplicationStatusCheckId"]: one for one in _every_check(inquiry)}
    if not checks:
        yield passed("the account has none")
        return
    answer = inquiry.ask(STATUS_CHECK_TARGETS, ApplicationStatusCheckIds=sorted(checks))
    found: dict[str, list[str]] = {}
    for one in answer.get("Associations", ()):
        if one.get("AssociationType") == "tag" and _is_on_nodes(one, fleet, inquiry.cluster):
            found.setdefault(one["ApplicationStatusCheckId"], []).append(f"{one['Key']}={one.get('Value', '')}")
    if not found:
        yield passed(f"none of {len(checks)} watches a tag of the nodes")
    for check_id, tags in found.items():
        check = checks[check_id]
        said = f"{check_id} ({check.get('Protocol')} on port {check.get('Port')}) watches {words(tags)}"
        if check.get("Aggregation") == "excluded":
            yield warned(f"{said}, excluded from the status of instances", fix="take its tag off, if it is not yours")
        else:
            yield failed(
                f"{said}: EC2 Auto Scaling, or what else replaces impaired instances, ends nodes that do not answer",
                fix="associate it with another tag, exclude it from the aggregation, or have the nodes answer it",
            )


def _every_check(inquiry: Inquiry) -> list[dict[str, Any]]:
    return list(inquiry.ask(STATUS_CHECKS).get("ApplicationStatusChecks", ()))


def _is_on_nodes(association: Mapping[str, Any], fleet: PlannedFleet, cluster: Cluster) -> bool:
    """Whether nodes get the tag: from the file, from the cluster, or from EC2 Auto Scaling and CloudFormation."""
    key, value = str(association["Key"]), str(association.get("Value", ""))
    tags = {CLUSTER_TAG: cluster.spec.name, **cluster.spec.tags, **fleet.spec.tags}
    if tags.get(key) == value:
        return True
    # EC2 Auto Scaling and CloudFormation name them: stacks and groups begin with the name of the cluster.
    return key.startswith("aws:") and value.startswith(f"{cluster.spec.name}-")
