"""What a scraper of Amazon Managed Service for Prometheus may scrape, how often and from where."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from cdk_gpu_clusters.errors import Finding, check, define_rule

_COLLECTOR = 'Amazon CloudWatch user guide, "Scraper configuration" (limitations)'

SCRAPE_TIMES = define_rule(
    "GPU-SCR-001",
    "targets are scraped every 30 seconds at most, each within the interval",
    source=f"{_COLLECTOR}; Prometheus documentation, scrape_timeout (not above the interval)",
)
SCRAPE_TARGET = define_rule(
    "GPU-SCR-002",
    "a target has a job, a port, a path, and either a DNS name or addresses",
    source="Prometheus documentation, scrape_config, dns_sd_config and static_config; data model (label names)",
)
SCRAPE_SIZE = define_rule(
    "GPU-SCR-003",
    "a scrape configuration has 256 KB at most",
    source=_COLLECTOR,
)
SCRAPER_SUBNETS = define_rule(
    "GPU-SCR-004",
    "a scraper has 2 to 5 subnets in different Availability Zones",
    source='Amazon CloudWatch user guide, "VPC-connected managed collector" (prerequisites); botocore 1.43, service '
    "model of amp: SubnetIds",
)
SCRAPER_REGION = define_rule(
    "GPU-SCR-005",
    "the stack of a scraper is in a Region with scrapers",
    source="CloudFormation registry schemas by Region (cfn-lint 1.58.0)",
)
SCRAPED_FLEET = define_rule(
    "GPU-SCR-006",
    "a scraped fleet is an Auto Scaling group of 200 nodes at most, and what is scraped has a DNS label of its own",
    source='Route 53 developer guide, "DNS constraints and behaviors" (an answer over UDP has 4,096 bytes at most; 200 '
    "addresses have 3,200) and RFC 1035, section 2.3.1 (labels)",
)

#: Port of `/metrics` of the watchdog of nodes, where it is served and none is given.
METRICS_PORT = 9810
#: Name of the scrape job whose targets are nodes with `NodeWatch(metrics_port=...)`.
JOB = "gpunode"

SCRAPED_CONTROLLER = define_rule(
    "GPU-SCR-007",
    "a scraped controller of AWS PCS serves metrics",
    source='AWS PCS user guide, "Slurm metrics in AWS PCS": MetricsType',
)

SCRAPER_DESTINATION = define_rule(
    "GPU-SCR-008",
    "a scraper sends metrics to a workspace with a key of its own by two roles only",
    source='Amazon Managed Service for Prometheus user guide, "Encryption at rest" and "Creating scraper for '
    'workspaces enabled with customer managed keys"',
)
SCRAPER_ACCOUNT = define_rule(
    "GPU-SCR-011",
    "a scraper sends metrics to a workspace of its Region, and to one of another account by two roles",
    source='Amazon Managed Service for Prometheus user guide, "Cross-account setup" and "Scraper limitations"',
)

SCRAPED_PODS = define_rule(
    "GPU-SCR-009",
    "a target of Amazon EKS has a job of its own, ports, a path, and names that Kubernetes has",
    source='Prometheus documentation, kubernetes_sd_config; Kubernetes documentation, "Labels and Selectors" and '
    '"Object Names and IDs"',
)

SCRAPER_ZONE = define_rule(
    "GPU-SCR-010",
    "a hosted zone is named where a scraper finds nodes by DNS names",
    source="a scraper of Amazon EKS finds nodes and pods by the Kubernetes API",
)

#: End of the names of private hosted zones with the addresses of nodes.
ZONE_SUFFIX = "gpu-metrics.internal"
LEAST_INTERVAL_SECONDS = 30
_MOST_BYTES = 256 * 1024
_MOST_PORT = 65_535
_FEWEST_SUBNETS, MOST_SUBNETS = 2, 5
#: Nodes whose addresses one record has.
MOST_NODES = 200
#: Regions of the catalogue of cfn-lint without `AWS::APS::Scraper`.
WITHOUT_SCRAPERS = frozenset({"cn-north-1", "cn-northwest-1", "us-gov-east-1", "us-gov-west-1"})

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_DNS_NAME = re.compile(rf"{_LABEL.pattern}(\.{_LABEL.pattern})+")
_LONGEST_DNS_NAME = 253
_LABEL_NAME = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*")
_KUBERNETES_LABEL = re.compile(r"([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrapeTarget:
    """What one scrape job reads at one DNS name or at fixed addresses.

    Targets of the same job are scraped by one job of Prometheus, and have the same path.

    Attributes:
        job: Name of the job, and label `job` of what it reads.
        port: Port at which metrics are served.
        path: Path at which they are served; `/metrics` by default.
        dns_name: Name whose A records are the addresses, known at synthesis. None where `addresses` has them.
        addresses: IPv4 addresses or host names; may be tokens. None where `dns_name` names them.
        labels: Labels of all that is read there; none by default.

    Example:
        >>> ScrapeTarget(job="vllm", port=8000, addresses=["10.0.0.12"], labels={"model": "llama"}).path
        '/metrics'
    """

    job: str
    port: int
    path: str = "/metrics"
    dns_name: str | None = None
    addresses: Sequence[str] = ()
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTarget:
    """Pods of a cluster of Amazon EKS that one scrape job reads.

    Their metrics get the labels `namespace`, `pod` and `node`.

    Attributes:
        job: Name of the job, and label `job` of what it reads.
        ports: Ports of containers at which metrics are served. The pods must declare them.
        path: Path at which they are served; `/metrics` by default.
        pod_labels: Labels of Kubernetes that the pods have; any by default.
        containers: Names of the containers; any by default.
        namespaces: Where the pods are; all namespaces by default.

    Example:
        >>> PodTarget(job="triton", ports=[8002], pod_labels={"app": "triton"}).path
        '/metrics'
    """

    job: str
    ports: Sequence[int]
    path: str = "/metrics"
    pod_labels: Mapping[str, str] = field(default_factory=dict)
    containers: Sequence[str] = ()
    namespaces: Sequence[str] = ()


@check
def check_targets(
    targets: Sequence[ScrapeTarget], *, interval_seconds: int, timeout_seconds: int, path: str = "targets"
) -> Iterator[Finding]:
    """Find times and targets that Prometheus or the collector refuses, or that would never be scraped.

    Args:
        targets: The targets.
        interval_seconds: How often each is scraped.
        timeout_seconds: How long it may take.
        path: Where the targets were given.

    Example:
        >>> check_targets([ScrapeTarget(job="ray", port=8080, addresses=["10.0.0.12"])],
        ...     interval_seconds=60, timeout_seconds=10)
        []
    """
    yield from _wrong_times(interval_seconds, timeout_seconds)
    if not targets:
        yield _nothing(path)
    paths: dict[str, str] = {}
    for index, target in enumerate(targets):
        for name, cause, got, allowed in _faults(target):
            yield SCRAPE_TARGET.finding(
                cause=cause, got=got, allowed=allowed, fix=f"correct {name}", path=f"{path}[{index}].{name}"
            )
        if paths.setdefault(target.job, target.path) != target.path:
            yield SCRAPE_TARGET.finding(
                cause=f"the job {target.job} has two paths",
                got=f"{paths[target.job]} and {target.path}",
                allowed="one path for each job",
                fix="name one of them differently, as the five jobs of slurmctld are",
                path=f"{path}[{index}].path",
            )


def _nothing(path: str) -> Finding:
    return SCRAPE_TARGET.finding(
        cause="there is nothing to scrape",
        got="no target",
        allowed="one target or more",
        fix="add a fleet or a target",
        path=path,
    )


@check
def check_pods(
    targets: Sequence[PodTarget], *, fleets: Sequence[str] = (), interval_seconds: int, timeout_seconds: int
) -> Iterator[Finding]:
    """Find times and targets of a cluster of Amazon EKS that Prometheus refuses, or that would never be scraped.

    Args:
        targets: The pods.
        fleets: Names of the node groups whose watchdogs are scraped.
        interval_seconds: How often each is scraped.
        timeout_seconds: How long it may take.

    Example:
        >>> check_pods([PodTarget(job="dcgm", ports=[9400])], interval_seconds=60, timeout_seconds=10)
        []
    """
    yield from _wrong_times(interval_seconds, timeout_seconds)
    if not targets and not fleets:
        yield _nothing("targets")
    jobs = [JOB] if fleets else []
    for index, target in enumerate(targets):
        for name, cause, got, allowed in _faults_of_pods(target, jobs):
            yield SCRAPED_PODS.finding(
                cause=cause, got=got, allowed=allowed, fix=f"correct {name}", path=f"targets[{index}].{name}"
            )
        jobs.append(target.job)


def _faults_of_pods(target: PodTarget, jobs: Sequence[str]) -> Iterator[tuple[str, str, str, str]]:
    """Each fault of a target: where, what, what was given, and what is allowed."""
    if not target.job or target.job in jobs:
        cause = "another job has this name" if target.job else "the job has no name"
        yield "job", cause, repr(target.job), "a name of its own, such as triton"
    if not target.ports or not all(1 <= port <= _MOST_PORT for port in target.ports):
        yield "ports", "these are no ports", str(list(target.ports)), f"one or more of 1 to {_MOST_PORT:,}"
    if not target.path.startswith("/"):
        yield "path", "the path does not begin with /", repr(target.path), "a path, such as /metrics"
    for name in target.pod_labels:
        if not _KUBERNETES_LABEL.fullmatch(name):
            allowed = "such as app.kubernetes.io/name"
            yield "pod_labels", "Kubernetes refuses the name of a label", repr(name), allowed
    for field_name, names in (("containers", target.containers), ("namespaces", target.namespaces)):
        for name in names:
            if not _LABEL.fullmatch(name):
                allowed = "1 to 63 lowercase letters, digits and hyphens inside"
                yield field_name, "Kubernetes refuses the name", repr(name), allowed


def _wrong_times(interval_seconds: int, timeout_seconds: int) -> Iterator[Finding]:
    if interval_seconds < LEAST_INTERVAL_SECONDS:
        yield SCRAPE_TIMES.finding(
            cause="the collector refuses the interval",
            got=f"{interval_seconds} seconds",
            allowed=f"{LEAST_INTERVAL_SECONDS} seconds or more",
            fix="correct interval_seconds; nodes measure once a minute",
            path="interval_seconds",
        )
    if not 1 <= timeout_seconds <= interval_seconds:
        yield SCRAPE_TIMES.finding(
            cause="Prometheus refuses the timeout",
            got=f"{timeout_seconds} seconds",
            allowed=f"1 to {interval_seconds} seconds, the interval",
            fix="correct timeout_seconds",
            path="timeout_seconds",
        )


def _faults(target: ScrapeTarget) -> Iterator[tuple[str, str, str, str]]:
    """Each fault of a target: where, what, what was given, and what is allowed."""
    if not target.job:
        yield "job", "the job has no name", "''", "a name, such as gpunode"
    if not 1 <= target.port <= _MOST_PORT:
        yield "port", "this is no port", str(target.port), f"1 to {_MOST_PORT:,}"
    if not target.path.startswith("/"):
        yield "path", "the path does not begin with /", repr(target.path), "a path, such as /metrics"
    if (target.dns_name is None) == (not target.addresses):
        got = "neither" if target.dns_name is None else "both"
        yield "dns_name", "a target is found in one way", got, "dns_name or addresses"
    elif target.dns_name is not None and not _is_dns_name(target.dns_name):
        allowed = "labels of lowercase letters, digits and hyphens, with points between them, known at synthesis"
        yield "dns_name", "this is no DNS name", repr(target.dns_name), allowed
    for name in target.labels:
        if not _LABEL_NAME.fullmatch(name):
            yield "labels", "Prometheus refuses the name of a label", repr(name), "letters, digits and _, not after __"


def _is_dns_name(text: str) -> bool:
    return len(text) <= _LONGEST_DNS_NAME and _DNS_NAME.fullmatch(text) is not None


@check
def check_configuration(text: str) -> Iterator[Finding]:
    """Find a scrape configuration that is too long for the collector.

    Args:
        text: The configuration; tokens count as they are.

    Example:
        >>> check_configuration("scrape_configs: []")
        []
    """
    size = len(text.encode())
    if size > _MOST_BYTES:
        yield SCRAPE_SIZE.finding(
            cause="the collector refuses the configuration",
            got=f"{size:,} bytes",
            allowed=f"{_MOST_BYTES:,} bytes",
            fix="make a second scraper for some of the targets",
            path="targets",
        )


@check
def check_place(zones: Sequence[str | None], *, region: str | None) -> Iterator[Finding]:
    """Find subnets or a Region in which AWS makes no scraper.

    Args:
        zones: Availability Zone of each subnet; None where it is not known yet.
        region: Region of the stack; None if it is not known yet.

    Example:
        >>> check_place(["us-east-2a", "us-east-2b"], region="us-east-2")
        []
    """
    low, high = _FEWEST_SUBNETS, MOST_SUBNETS
    known = [zone for zone in zones if zone is not None]
    if not low <= len(zones) <= high or (len(known) == len(zones) and len(set(known)) < low):
        yield SCRAPER_SUBNETS.finding(
            cause="AWS makes no scraper in these subnets",
            got=f"{len(zones)} in {', '.join(sorted(set(known))) or 'no known zone'}",
            allowed=f"{low} to {high} subnets in {low} Availability Zones or more",
            fix="select subnets of two zones in vpc_subnets; those of the nodes need not be among them",
            path="vpc_subnets",
        )
    if region in WITHOUT_SCRAPERS:
        yield SCRAPER_REGION.finding(
            cause="CloudFormation makes no scrapers in this Region",
            got=region,
            allowed="a Region with AWS::APS::Scraper",
            fix="run a Prometheus of your own, with scrape_configuration()",
            path="region",
        )


@check
def check_fleets(fleets: Sequence[tuple[str, bool, int | None]]) -> Iterator[Finding]:
    """Find fleets that no DNS record can list.

    Args:
        fleets: Name of each fleet, whether it is an Auto Scaling group of its own, and its most nodes; None where they
            are not known.

    Example:
        >>> check_fleets([("trainers", True, 16)])
        []
    """
    names = [name for name, _, _ in fleets]
    for index, (name, is_group, nodes) in enumerate(fleets):
        if not is_group:
            yield SCRAPED_FLEET.finding(
                cause="another service has the nodes",
                got=name,
                allowed="a fleet on plain EC2",
                fix="remove it; docs/prometheus.md has the ways for Amazon EKS and AWS PCS",
                path=f"fleets[{index}].fleet",
            )
        is_again = name in names[:index]
        if is_again or not _LABEL.fullmatch(name):
            yield SCRAPED_FLEET.finding(
                cause="another fleet has this name" if is_again else "the name is no DNS label",
                got=repr(name),
                allowed="1 to 63 lowercase letters, digits and hyphens inside, each name once",
                fix="correct the name",
                path=f"fleets[{index}].name",
            )
        if nodes is not None and nodes > MOST_NODES:
            yield SCRAPED_FLEET.finding(
                cause="the fleet has more nodes than one answer of DNS holds",
                got=f"{nodes:,} nodes",
                allowed=f"{MOST_NODES} nodes",
                fix="split the fleet, or let its nodes send their metrics with a Prometheus agent",
                path=f"fleets[{index}].fleet",
            )


@check
def check_controller(name: str, settings: Mapping[str, str] | None) -> Iterator[Finding]:
    """Find a controller that serves no metrics.

    Args:
        name: Its name among what is scraped.
        settings: Its custom settings of slurm.conf; None where they are not known.

    Example:
        >>> check_controller("slurm", {"MetricsType": "metrics/openmetrics"})
        []
    """
    if settings is not None and "MetricsType" not in settings:
        yield SCRAPED_CONTROLLER.finding(
            cause="the controller serves no metrics",
            got="no MetricsType",
            allowed="a cluster with metrics=True, of Slurm 25.11 or later",
            fix="add metrics=True to the cluster",
            path=f"slurm_clusters[{name}]",
        )


@check
def check_destination(*, has_own_key: bool, has_roles: bool = False) -> Iterator[Finding]:
    """Find a workspace that AWS's collectors cannot write to.

    Args:
        has_own_key: Whether the workspace has a key of its own.
        has_roles: Whether the collector writes by roles.
    """
    if has_own_key and not has_roles:
        yield SCRAPER_DESTINATION.finding(
            cause="AWS's collectors do not write to a workspace with a key of its own",
            got="encryption_key",
            allowed="a workspace without encryption_key, or Amazon CloudWatch",
            fix="give workspace_roles, or remove encryption_key, which makes another workspace",
            path="workspace",
        )


@check
def check_workspace_place(
    workspace: tuple[str | None, str | None], own: tuple[str | None, str | None], *, has_roles: bool
) -> Iterator[Finding]:
    """Find a workspace of another Region, and one of another account without roles.

    Args:
        workspace: Region and account of the workspace; None for what is not known yet.
        own: Those of the collector.
        has_roles: Whether the collector writes by roles.

    Example:
        >>> check_workspace_place(("us-east-2", "111122223333"), ("us-east-2", None), has_roles=False)
        []
    """
    is_other = [None not in pair and pair[0] != pair[1] for pair in zip(workspace, own, strict=True)]
    if is_other[0]:
        yield SCRAPER_ACCOUNT.finding(
            cause="the workspace is in another Region",
            got=str(workspace[0]),
            allowed=str(own[0]),
            fix="make a workspace in this Region, or send metrics with a Prometheus of your own",
            path="workspace",
        )
    if is_other[1] and not has_roles:
        yield SCRAPER_ACCOUNT.finding(
            cause="the workspace is in another account, in which the collector has no rights",
            got=str(workspace[1]),
            allowed=f"a workspace of {own[1]}, or one with workspace_roles",
            fix="give workspace_roles; docs/prometheus.md has the trust policies",
            path="workspace",
        )
