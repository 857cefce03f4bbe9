"""What changes beside the nodes of an inference fleet: its load balancer, and how it scales."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cdk_gpu_clusters_stacks.spec.inference import InferenceFleetSpec, LoadBalancerSpec

from ._compare import Words, compare
from ._sides import SCHEMA, Side, subnets_of, vpc_of
from .change_model import Change

LOAD_BALANCER = "AWS::ElasticLoadBalancingV2::LoadBalancer"
LISTENER = "AWS::ElasticLoadBalancingV2::Listener"
TARGET_GROUP = "AWS::ElasticLoadBalancingV2::TargetGroup"
SCALING_POLICY = "AWS::AutoScaling::ScalingPolicy"
SECURITY_GROUP = "AWS::EC2::SecurityGroup"
BUCKET = "AWS::S3::Bucket"


@dataclass(frozen=True, slots=True)
class _Service:
    """An inference fleet in one of the two files."""

    side: Side
    spec: InferenceFleetSpec

    @property
    def balancer(self) -> LoadBalancerSpec:
        return self.spec.load_balancer

    @property
    def port(self) -> int:
        return 0 if self.side.plan.load_balancer is None else self.side.plan.load_balancer.port

    @property
    def subnets(self) -> tuple[str, ...]:
        return () if self.side.plan.load_balancer is None else self.side.plan.load_balancer.subnets


def service_changes(before: Side, after: Side) -> Iterator[Change]:
    """What changes of load balancer and scaling; nothing for a training fleet."""
    pair = [
        _Service(side, side.view.spec)
        for side in (before, after)
        if isinstance(side.view.spec, InferenceFleetSpec)
    ]
    if len(pair) == 2:
        yield from _load_balancer(pair, f"{after.key}.load_balancer", after.plan.stack_name)
        yield from _targets(pair, f"{after.key}.load_balancer", after.plan.stack_name)
        yield from _scaling(pair, f"{after.key}.requests_per_minute_per_node", after.plan.stack_name)


def _load_balancer(pair: list[_Service], key: str, stack: str) -> Iterator[Change]:
    facing, tls = f"{key}.internet_facing", f"{key}.certificate_arn"
    yield from compare(
        stack,
        LOAD_BALANCER,
        (
            {
                facing: one.balancer.internet_facing,
                f"{key}.idle_timeout_seconds": one.balancer.idle_timeout_seconds,
                f"{key}.access_log_bucket": one.balancer.access_log_bucket,
                **subnets_of(one.side, one.subnets),
            }
            for one in pair
        ),
        Words(
            updated="the load balancer changes in place",
            replaced="another load balancer is made, with another address (output Url)",
            source=SCHEMA.format(LOAD_BALANCER),
        ),
        replacing=frozenset([facing]),
    )
    yield from compare(
        stack,
        SECURITY_GROUP,
        ({f"{key}.clients": one.balancer.clients, tls: one.port, **vpc_of(one.side)} for one in pair),
        Words(
            updated="who may connect changes in place",
            replaced="another group is made in the other VPC",
            source=SCHEMA.format(SECURITY_GROUP),
        ),
        replacing=frozenset(["network.vpc_id"]),
    )
    yield from compare(
        stack,
        LISTENER,
        ({tls: (one.balancer.certificate_arn, one.balancer.plain_http)} for one in pair),
        Words(updated="the listener changes in place: clients follow the output Url"),
    )
    yield from compare(
        stack,
        BUCKET,
        (
            {f"{key}.access_log_bucket": True} if one.balancer.access_log_bucket is None else None
            for one in pair
        ),
        Words(
            added="a bucket for access logs is made",
            removed="the bucket with the access logs leaves its stack and stays",
            data="access logs stay where they are",
        ),
    )


def _targets(pair: list[_Service], key: str, stack: str) -> Iterator[Change]:
    yield from compare(
        stack,
        TARGET_GROUP,
        (
            {f"{key}.drain_timeout_seconds": one.balancer.drain_timeout_seconds, **vpc_of(one.side)}
            for one in pair
        ),
        Words(
            updated="how long running requests of a leaving node get changes in place",
            replaced="another target group is made in the other VPC",
            source=SCHEMA.format(TARGET_GROUP),
        ),
        replacing=frozenset(["network.vpc_id"]),
    )


def _scaling(pair: list[_Service], key: str, stack: str) -> Iterator[Change]:
    rates = [one.spec.requests_per_minute_per_node for one in pair]
    yield from compare(
        stack,
        SCALING_POLICY,
        (None if rate is None else {key: rate} for rate in rates),
        Words(
            updated="the fleet scales at another rate",
            added="the fleet scales with its requests from now on",
            removed="the fleet scales no more: it stays as large as it is",
        ),
    )
