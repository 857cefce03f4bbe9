"""Checks of the model server of an inference fleet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from cdk_gpu_clusters.errors import Finding, errors_in
from cdk_gpu_clusters.node.user_data import check_secrets
from cdk_gpu_clusters.rules.inference import check_counts
from cdk_gpu_clusters.rules.model_servers import (
    check_container_image,
    check_container_port,
    check_health_path,
    check_secret_arn,
    check_variables,
    check_weights,
    read_ecr_image,
)

from ._check_balancer import check_arn
from ._check_user_data import check_plain_values
from ._document import Key
from ._fault import Fault, faults_at
from ._parts import SpecParts
from ._rules import CLOSED_REGISTRY, MISSING_KEY
from .network import NewNetwork
from .server import ServerSpec, WeightsSpec


def check_server(key: Key, spec: ServerSpec, broken: frozenset[str], parts: SpecParts) -> list[Fault]:
    """Find what is wrong with a model server, on whatever node.

    Args:
        key: Where the server stands in the file.
        spec: The server.
        broken: Fields of the fleet that have a fault already.
        parts: The file's sound parts: the Region, and the network, through which images come.
    """
    faults = faults_at((*key, "port"), check_container_port(spec.port))
    faults += faults_at((*key, "health_path"), check_health_path(spec.health_path))
    if not broken & {"server", "server.image"}:
        faults += _check_image((*key, "image"), spec.image, parts)
    for index, argument in enumerate(spec.command):
        found = [replace(finding, got="this argument") for finding in check_secrets(argument)]
        faults += faults_at((*key, "command", index), found)
    for name in ("shared_memory_gib", "max_concurrent_requests"):
        faults += faults_at((*key, name), check_counts(**{name: getattr(spec, name)}))
    faults += _check_variables(key, spec)
    faults += _check_arns(key, spec, parts.region)
    return faults + ([] if spec.weights is None else _check_weights((*key, "weights"), spec.weights))


def _check_image(key: Key, image: str, parts: SpecParts) -> list[Fault]:
    findings = check_container_image(image)
    network, repository = parts.network, read_ecr_image(image)
    is_closed = isinstance(network, NewNetwork) and network.egress == "closed"
    is_here = repository is not None and parts.region in (None, repository.region)
    if is_closed and not is_here and not errors_in(findings):
        region = parts.region or "<region>"
        findings.append(
            CLOSED_REGISTRY.finding(
                cause="a closed network reaches no registry but ECR in its Region",
                got=image,
                allowed=f"<account>.dkr.ecr.{region}.amazonaws.com/<repository>:<tag>",
                fix="copy the image into ECR, such as by a pull-through cache, or write egress: nat",
            )
        )
    return faults_at(key, findings)


def _check_variables(key: Key, spec: ServerSpec) -> list[Fault]:
    faults = check_plain_values((*key, "environment"), spec.environment)
    for name in spec.environment:
        found = check_variables({name: ""}, ())
        faults += faults_at((*key, "environment", name), found, at_key=True)
    for name in spec.secrets:
        plain = {name: ""} if name in spec.environment else {}
        known = check_variables(plain, ())
        found = [finding for finding in check_variables(plain, [name]) if finding not in known]
        faults += faults_at((*key, "secrets", name), found, at_key=True)
    return faults


def _check_arns(key: Key, spec: ServerSpec, region: str | None) -> list[Fault]:
    arns: dict[Key, str] = {("secrets", name, "arn"): one.arn for name, one in spec.secrets.items()}
    if spec.registry_login is not None:
        arns["registry_login", "arn"] = spec.registry_login.arn
    faults: list[Fault] = []
    for path, arn in arns.items():
        found = check_secret_arn(arn)
        faults += faults_at((*key, *path), found)
        if not found and region is not None:
            faults += check_arn((*key, *path), arn, region, "secret")
    return faults


def _check_weights(key: Key, weights: WeightsSpec) -> list[Fault]:
    if weights.path is None and weights.s3_uri is None:
        finding = MISSING_KEY.finding(
            cause="the weights lie nowhere",
            got="neither path nor s3_uri",
            allowed="path, s3_uri, or both",
            fix="add path for a folder that is there, or s3_uri for objects to copy",
        )
        return faults_at(key, [finding], at_key=True)
    return [
        *faults_at((*key, "path"), _about_path(weights.path)),
        *faults_at((*key, "s3_uri"), _about_uri(weights.s3_uri)),
    ]


def _about_path(path: str | None) -> Iterable[Finding]:
    return () if path is None else check_weights(path, None)


def _about_uri(uri: str | None) -> Iterable[Finding]:
    return () if uri is None else check_weights("/model", uri)
