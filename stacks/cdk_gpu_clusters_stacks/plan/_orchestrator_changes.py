"""What another orchestrator does to the stack of a fleet: group and nodes are others, their rules are the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cdk_gpu_clusters_stacks.spec.inference import InferenceFleetSpec

from ._sides import Side, block_of, own_placement
from .change_model import Change, Effect

_KEY = "orchestrator"
_NO_ROOM = (
    "nodes of the new group come before the old ones go: where a reservation has no room for both, the deployment "
    "fails; bring the fleet to zero nodes first"
)


@dataclass(frozen=True, slots=True)
class _Part:
    """A resource of a fleet under one orchestrator.

    Attributes:
        resource: CloudFormation type.
        removed: What it means that it goes.
        added: What it means that it comes.
        nodes: What happens to running nodes.
    """

    resource: str
    removed: str
    added: str
    nodes: str = ""


_TEMPLATE = _Part("AWS::EC2::LaunchTemplate", "the template of the old nodes", "a template for the new nodes")
_PLACEMENT = _Part(
    "AWS::EC2::PlacementGroup",
    "EC2 deletes a group only when it is empty, so it may be left behind",
    "a group is made for the new nodes",
)
_OWN_GROUP = _Part(
    "AWS::EC2::SecurityGroup",
    "the fleet's own security groups go, once no node uses them",
    "the nodes get a security group of their own, beside that of the cluster",
)
_ALARMS = _Part(
    "AWS::CloudWatch::Alarm",
    "the alarms on the old group go, and so does their history",
    "alarms are raised on what the new nodes tell of themselves",
)
_ON_EC2 = {
    "group": _Part(
        "AWS::AutoScaling::AutoScalingGroup",
        "the Auto Scaling group goes, with its lifecycle hooks: EKS makes a group of its own for the node group, and a "
        "node that is not ready does not start kubelet",
        "nodes are an Auto Scaling group; a lifecycle hook holds each back until it is ready",
        _NO_ROOM,
    ),
    "machine": _Part(
        "AWS::StepFunctions::StateMachine",
        "what sized the Auto Scaling group with its block, and what stopped a launch loop, go with it",
        "state machines size the group with its block, and stop a launch loop",
    ),
    "balancer": _Part(
        "AWS::ElasticLoadBalancingV2::LoadBalancer",
        "the load balancer goes, with its address: a Service in the cluster takes its place, which `gpu-clusters "
        "manifests` writes",
        "clients reach the servers through a load balancer again (output Url)",
    ),
    "listener": _Part(
        "AWS::ElasticLoadBalancingV2::Listener", "it goes with its load balancer", "clients connect here"
    ),
    "targets": _Part(
        "AWS::ElasticLoadBalancingV2::TargetGroup",
        "the Service finds the pods that are ready",
        "the load balancer finds the nodes that are ready",
    ),
    "scaling": _Part(
        "AWS::AutoScaling::ScalingPolicy",
        "the fleet scales no more with its requests: a HorizontalPodAutoscaler scales the pods, and an autoscaler of "
        "the cluster's, which is not part of it, the nodes",
        "the fleet scales with its requests from now on",
    ),
    "access logs": _Part(
        "AWS::S3::Bucket",
        "the bucket with the access logs leaves its stack and stays",
        "a bucket for access logs is made",
    ),
}
_ON_EKS = {
    "group": _Part(
        "AWS::EKS::Nodegroup",
        "the node group goes, and EKS drains its nodes",
        "nodes are a managed node group of the cluster; pods select them by labels and tolerate their taints",
        _NO_ROOM,
    ),
    "machine": _Part(
        "AWS::StepFunctions::StateMachine",
        "what sized the node group at the start of its block goes",
        "a state machine sizes the node group when its block is delivered; EKS itself empties it before the end",
    ),
}


def orchestrator_changes(before: Side, after: Side) -> Iterator[Change]:
    """What changes in the stack of a fleet whose orchestrator changes."""
    for part in _parts(before):
        yield _change(after, part, Effect.REMOVED, part.removed)
    for part in _parts(after):
        yield _change(after, part, Effect.ADDED, part.added)


def _change(after: Side, part: _Part, effect: Effect, words: str) -> Change:
    return Change(
        stack=after.plan.stack_name,
        resource=part.resource,
        effect=effect,
        keys=(_KEY,),
        words=words,
        nodes=part.nodes if effect is Effect.REMOVED else "",
        source="AWS CDK: a construct of another id is another resource, made before the old one is deleted",
    )


def _parts(side: Side) -> Iterator[_Part]:
    """What a fleet is made of."""
    own = _ON_EKS if side.view.on_eks else _ON_EC2
    yield _TEMPLATE
    yield own["group"]
    if own_placement(side) is not None:
        yield _PLACEMENT
    if side.plan.fabric is None:
        yield _OWN_GROUP
    if block_of(side) is not None or _stops_loops(side):
        yield own["machine"]
    if side.view.spec.alarms.enabled:
        yield _ALARMS
    if not side.view.on_eks:
        yield from _on_ec2_only(side)


def _stops_loops(side: Side) -> bool:
    alarms = side.view.spec.alarms
    return alarms.enabled and alarms.suspends_launching and not side.view.on_eks


def _on_ec2_only(side: Side) -> Iterator[_Part]:
    spec = side.view.spec
    if isinstance(spec, InferenceFleetSpec):
        yield from (_ON_EC2[name] for name in ("balancer", "listener", "targets"))
        if spec.requests_per_minute_per_node is not None:
            yield _ON_EC2["scaling"]
        if spec.load_balancer.access_log_bucket is None:
            yield _ON_EC2["access logs"]
