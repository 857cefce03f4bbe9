"""Checks of the load balancer of an inference fleet."""

from __future__ import annotations

from dataclasses import replace

from cdk_gpu_clusters.rules.capacity import decide_capacity
from cdk_gpu_clusters.rules.checkpoints import check_bucket_name
from cdk_gpu_clusters.rules.fleet import BLOCK_DRAIN, check_drain_of_block
from cdk_gpu_clusters.rules.inference import (
    DRAIN_MARGIN_SECONDS,
    check_drain_timeout,
    check_idle_timeout,
    check_tls,
)

from ._arn import foreign_place
from ._document import Key
from ._fault import Fault, faults_at
from ._rules import FOREIGN_ARN
from .capacity import capacity_terms
from .inference import InferenceFleetSpec, LoadBalancerSpec

_LISTENER = frozenset({"certificate_arn", "plain_http", "internet_facing"})


def check_balancer(
    key: Key, spec: InferenceFleetSpec, broken: frozenset[str], region: str | None
) -> list[Fault]:
    """Find what is wrong with a load balancer, wherever it stands.

    Args:
        key: Where the fleet stands in the file.
        spec: The fleet.
        broken: Fields of it that have a fault already.
        region: Region of the cluster, if it is sound.
    """
    balancer, here = spec.load_balancer, (*key, "load_balancer")
    faults: list[Fault] = []
    if not broken & {"load_balancer", *(f"load_balancer.{name}" for name in _LISTENER)}:
        faults += _check_listener(here, balancer)
    if region is not None and balancer.certificate_arn is not None:
        faults += check_arn((*here, "certificate_arn"), balancer.certificate_arn, region, "certificate")
    if balancer.access_log_bucket is not None:
        faults += faults_at((*here, "access_log_bucket"), check_bucket_name(balancer.access_log_bucket))
    if balancer.idle_timeout_seconds is not None:
        found = check_idle_timeout(balancer.idle_timeout_seconds)
        faults += faults_at((*here, "idle_timeout_seconds"), found)
    if balancer.drain_timeout_seconds is not None:
        faults += _check_drain((*here, "drain_timeout_seconds"), spec, balancer.drain_timeout_seconds, broken)
    return faults


def check_arn(key: Key, arn: str, region: str, what: str) -> list[Fault]:
    """Find an ARN of another Region or partition than the cluster's."""
    foreign = foreign_place(arn, region)
    if foreign is None:
        return []
    finding = FOREIGN_ARN.finding(
        cause=f"the {what} stands in another Region or partition than the cluster",
        got=foreign.got,
        allowed=foreign.allowed,
        fix=f"give a {what} of the cluster's Region",
    )
    return faults_at(key, [finding])


def _check_listener(key: Key, balancer: LoadBalancerSpec) -> list[Fault]:
    has_certificate = balancer.certificate_arn is not None
    findings = check_tls(
        has_certificate=has_certificate,
        plain_http=balancer.plain_http,
        internet_facing=balancer.internet_facing,
    )
    fix = "give certificate_arn" + ("" if balancer.internet_facing else ", or write plain_http: true")
    if has_certificate:
        fix = "keep one of certificate_arn and plain_http"
    told = [
        replace(
            finding,
            got=finding.got.replace("plain_http=True", "plain_http: true"),
            allowed="certificate_arn, or plain_http: true for an internal one",
            fix=fix,
        )
        for finding in findings
    ]
    where = (*key, "plain_http") if balancer.plain_http else key
    return faults_at(where, told, at_key=not balancer.plain_http)


def _check_drain(key: Key, spec: InferenceFleetSpec, seconds: int, broken: frozenset[str]) -> list[Fault]:
    findings = [replace(one, fix=f"change {key[-1]}") for one in check_drain_timeout(seconds)]
    if not findings and "capacity" not in broken:
        decision = decide_capacity(capacity_terms(spec.capacity), efa=False)
        most = int(BLOCK_DRAIN.total_seconds()) - DRAIN_MARGIN_SECONDS
        findings = [
            replace(one, got=f"{seconds} seconds", allowed=f"at most {most} seconds", fix=f"change {key[-1]}")
            for one in check_drain_of_block(decision, seconds + DRAIN_MARGIN_SECONDS)
        ]
    return faults_at(key, findings)
