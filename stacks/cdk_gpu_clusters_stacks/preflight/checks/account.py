"""The account: identity, Region, zones, and what `cdk deploy` needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cdk_gpu_clusters.errors import define_rule
from cdk_gpu_clusters.rules.zones import is_zone_id

from ..call import BUCKET, CALLER, PARAMETER, REGIONS, STACKS, ZONES, Absent, RegionSilent
from ..check import Check, Inquiry, Verdict, failed, passed, warned, whole
from ..cluster import Cluster, words

_ZONES_PAGE = 'AWS EC2 user guide, "Regions and Zones"'

RIGHT_ACCOUNT = define_rule(
    "GPU-PRE-001",
    "the credentials are those of the account in the file",
    source="AWS STS API reference, GetCallerIdentity",
)
NOT_ROOT = define_rule(
    "GPU-PRE-002",
    "the caller is not the root user",
    source='AWS IAM user guide, "Root user best practices for your AWS account"',
)
REGION_ENABLED = define_rule(
    "GPU-PRE-003", "the Region is enabled in the account", source="EC2 API reference, DescribeRegions"
)
ZONES_OPEN = define_rule(
    "GPU-PRE-004",
    "every zone of the file exists for the account, is available, and is opted in to",
    source="EC2 API reference, DescribeAvailabilityZones",
)
ENOUGH_ZONES = define_rule(
    "GPU-PRE-005",
    "the Region has two zones for what needs several",
    source=f"{_ZONES_PAGE}; this library's networks stand in two or more zones",
)


def _account(cluster: Cluster, inquiry: Inquiry) -> Iterator[Verdict]:
    caller = inquiry.ask(CALLER)
    wanted = cluster.spec.account
    if wanted not in (None, caller["Account"]):
        yield failed(
            f"the file is for account {wanted}, the credentials are of {caller['Account']}",
            fix="give --profile of that account, or correct account:",
        )
    else:
        yield passed(f"account {caller['Account']}, {caller['Arn']}")


def _root(_: Cluster, inquiry: Inquiry) -> Iterator[Verdict]:
    arn = str(inquiry.ask(CALLER)["Arn"])
    if arn.endswith(":root"):
        yield warned(f"{arn} can do anything, and no policy limits it", fix="deploy with a role")


def _region(cluster: Cluster, inquiry: Inquiry) -> Iterator[Verdict]:
    try:
        found = inquiry.ask(REGIONS, AllRegions=True)["Regions"]
    except RegionSilent as silent:
        yield failed(silent.cause, fix=silent.fix)
        return
    status = {one["RegionName"]: one.get("OptInStatus", "") for one in found}.get(cluster.region)
    if status in ("opted-in", "opt-in-not-required"):
        yield passed(f"{cluster.region}: {status}")
    else:
        yield failed(
            f"{cluster.region}: {status or 'no such Region for this account'}",
            fix=f"aws account enable-region --region-name {cluster.region}, which takes minutes to hours",
        )


def _named_zones(cluster: Cluster) -> Mapping[str, str]:
    network = cluster.new_network
    found = {"network.availability_zone": cluster.spec.network.availability_zone}
    for index, zone in enumerate((network and network.control_availability_zones) or ()):
        found[f"network.control_availability_zones.{index}"] = zone
    for where, (_, zone) in cluster.subnets.items():
        found[where] = zone
    return found


def _zone(zone: str, inquiry: Inquiry) -> Iterator[Verdict]:
    zones = inquiry.ask(ZONES, AllAvailabilityZones=True)["AvailabilityZones"]
    key = "ZoneId" if is_zone_id(zone) else "ZoneName"
    found = next((one for one in zones if one.get(key) == zone), None)
    if found is None:
        names = sorted(one[key] for one in zones if one.get("ZoneType") == "availability-zone")
        yield failed(f"the account has no zone {zone}", fix=f"choose one of {words(names)}")
    elif found.get("OptInStatus") == "not-opted-in":
        group = found.get("GroupName", zone)
        yield failed(
            f"{zone} is not opted in to",
            fix=f"aws ec2 modify-availability-zone-group --group-name {group} --opt-in-status opted-in",
        )
    elif found.get("State") != "available":
        said = words(one.get("Message", "") for one in found.get("Messages", ()))
        yield failed(f"{zone} is {found.get('State')}: {said}", fix="wait, or choose another zone")
    else:
        yield passed(f"{found['ZoneName']} is {found['ZoneId']} in this account")


def _chosen_zones(cluster: Cluster) -> Mapping[str, Cluster]:
    network = cluster.new_network
    return {} if network is None or network.control_availability_zones else {"network": cluster}


def _zone_count(_: Cluster, inquiry: Inquiry) -> Iterator[Verdict]:
    zones = inquiry.ask(ZONES, AllAvailabilityZones=True)["AvailabilityZones"]
    names = sorted(
        one["ZoneName"]
        for one in zones
        if one.get("ZoneType") == "availability-zone" and one.get("State") == "available"
    )
    if len(names) < 2:
        yield failed(
            f"CloudFormation finds {len(names)} available zones, and the network needs two",
            fix="choose another Region",
        )
    else:
        yield passed(f"CloudFormation takes two of {words(names)}")


ACCOUNT_CHECKS = (
    Check(rule=RIGHT_ACCOUNT, calls=(CALLER,), subjects=whole, judge=_account),
    Check(rule=NOT_ROOT, calls=(CALLER,), subjects=whole, judge=_root),
    Check(rule=REGION_ENABLED, calls=(REGIONS,), subjects=whole, judge=_region),
    Check(rule=ZONES_OPEN, calls=(ZONES,), subjects=_named_zones, judge=_zone),
    Check(
        rule=ENOUGH_ZONES,
        calls=(ZONES,),
        subjects=_chosen_zones,
        judge=_zone_count,
        unless="the file names the zones, or the network exists",
    ),
)


# What `cdk deploy` needs in the account, and what prevents it.

BOOTSTRAPPED = define_rule(
    "GPU-PRE-011",
    "the account is bootstrapped in the Region with the usual qualifier, recently enough",
    source='AWS CDK developer guide, "Bootstrap your environment"; aws-cdk-lib 2.275, DefaultStackSynthesizer',
)
ASSET_BUCKET = define_rule(
    "GPU-PRE-012",
    "the bucket of that bootstrap is there",
    source='AWS CDK developer guide, "Bootstrap your environment"; the nodes\' software is an asset in it',
)
STACKS_UPDATABLE = define_rule(
    "GPU-PRE-013",
    "stacks that are there already can be updated",
    source='AWS CloudFormation user guide, "Stack status codes"',
)

#: Qualifier of `cdk bootstrap` where the user names none, and the version that aws-cdk-lib 2.275 asks for.
QUALIFIER = "hnb659fds"
LEAST_BOOTSTRAP_VERSION = 6

_DELETE_FIRST = frozenset({"ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "CREATE_FAILED", "DELETE_FAILED"})
_BOOTSTRAP = "cdk bootstrap aws://{account}/{region}"


def _bootstrap(cluster: Cluster, inquiry: Inquiry) -> Iterator[Verdict]:
    inquiry.start(CALLER)
    name = f"/cdk-bootstrap/{QUALIFIER}/version"
    fix = _fix(cluster, inquiry)
    try:
        version = int(inquiry.ask(PARAMETER, Name=name)["Parameter"]["Value"])
    except Absent:
        yield failed(f"{name} does not exist: {cluster.region} is not bootstrapped", fix=fix)
        return
    if version < LEAST_BOOTSTRAP_VERSION:
        yield failed(f"bootstrap version {version}, and {LEAST_BOOTSTRAP_VERSION} is needed", fix=fix)
    else:
        yield passed(f"bootstrap version {version}")


def _bucket(cluster: Cluster, inquiry: Inquiry) -> Iterator[Verdict]:
    account = inquiry.ask(CALLER)["Account"]
    name = f"cdk-{QUALIFIER}-assets-{account}-{cluster.region}"
    try:
        inquiry.ask(BUCKET, Bucket=name)
    except Absent:
        yield failed(
            f"bucket {name} does not exist, where the nodes' software and large templates go",
            fix=f"{_fix(cluster, inquiry)}; if it was deleted by hand, delete the stack CDKToolkit first",
        )


def _fix(cluster: Cluster, inquiry: Inquiry) -> str:
    return _BOOTSTRAP.format(account=inquiry.ask(CALLER)["Account"], region=cluster.region)


def _stacks(cluster: Cluster) -> Mapping[str, str]:
    return {name: name for name in cluster.stack_names}


def _stack(name: str, inquiry: Inquiry) -> Iterator[Verdict]:
    try:
        status = str(inquiry.ask(STACKS, StackName=name)["Stacks"][0]["StackStatus"])
    except Absent:
        yield passed("not there yet")
        return
    if status in _DELETE_FIRST:
        yield failed(
            f"{status}: CloudFormation updates it no more",
            fix=f"aws cloudformation delete-stack --stack-name {name}; look what it retains",
        )
    elif status == "UPDATE_ROLLBACK_FAILED":
        yield failed(
            f"{status}: CloudFormation takes no update before it is rolled back",
            fix=f"aws cloudformation continue-update-rollback --stack-name {name}",
        )
    elif status.endswith("_IN_PROGRESS") and status != "REVIEW_IN_PROGRESS":
        yield warned(f"{status}: someone is deploying it", fix="wait until it is done")
    else:
        yield passed(status)


DEPLOYMENT_CHECKS = (
    Check(rule=BOOTSTRAPPED, calls=(PARAMETER, CALLER), subjects=whole, judge=_bootstrap),
    Check(rule=ASSET_BUCKET, calls=(BUCKET, CALLER), subjects=whole, judge=_bucket),
    Check(rule=STACKS_UPDATABLE, calls=(STACKS,), subjects=_stacks, judge=_stack),
)
