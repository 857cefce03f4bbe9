"""The account: identity, Region, zones, and what `cdk deploy` needs."""

from __future__ import annotations

from collections.abc import Mapping

from cdk_gpu_clusters.rules.zones import is_zone_id

from ..call import BUCKET, CALLER, PARAMETER, REGIONS, STACKS, ZONES, RegionSilent
from ..check import Inquiry, Verdict, define_check, failed, passed, warned, whole
from ..cluster import Cluster, words


@define_check(
    "GPU-PRE-001",
    "the credentials are those of the account in the file",
    source="AWS STS API reference, GetCallerIdentity",
    calls=(CALLER,),
    subjects=whole,
)
def _right_account(cluster: Cluster, inquiry: Inquiry) -> Verdict:
    caller = inquiry.ask(CALLER)
    wanted = cluster.spec.account
    if wanted not in (None, caller["Account"]):
        return failed(
            f"the file is for account {wanted}, the credentials are of {caller['Account']}",
            fix="give --profile of that account, or correct account:",
        )
    return passed(f"account {caller['Account']}, {caller['Arn']}")


@define_check(
    "GPU-PRE-002",
    "the caller is not the root user",
    source='AWS IAM user guide, "Root user best practices for your AWS account"',
    calls=(CALLER,),
    subjects=whole,
)
def _not_root(_: Cluster, inquiry: Inquiry) -> Verdict | None:
    arn = str(inquiry.ask(CALLER)["Arn"])
    if arn.endswith(":root"):
        return warned(f"{arn} can do anything, and no policy limits it", fix="deploy with a role")
    return None


@define_check(
    "GPU-PRE-003",
    "the Region is enabled in the account",
    source="EC2 API reference, DescribeRegions",
    calls=(REGIONS,),
    subjects=whole,
)
def _region_enabled(cluster: Cluster, inquiry: Inquiry) -> Verdict:
    try:
        found = inquiry.ask(REGIONS, AllRegions=True)["Regions"]
    except RegionSilent as silent:
        return failed(silent.cause, fix=silent.fix)
    status = {one["RegionName"]: one.get("OptInStatus", "") for one in found}.get(cluster.region)
    if status in ("opted-in", "opt-in-not-required"):
        return passed(f"{cluster.region}: {status}")
    return failed(
        f"{cluster.region}: {status or 'no such Region for this account'}",
        fix=f"aws account enable-region --region-name {cluster.region}, which takes minutes to hours",
    )


def _named_zones(cluster: Cluster) -> Mapping[str, str]:
    network = cluster.new_network
    found = {"network.availability_zone": cluster.spec.network.availability_zone}
    for index, zone in enumerate((network and network.control_availability_zones) or ()):
        found[f"network.control_availability_zones.{index}"] = zone
    return {**found, **{where: zone for where, (_, zone) in cluster.subnets.items()}}


@define_check(
    "GPU-PRE-004",
    "every zone of the file exists for the account, is available, and is opted in to",
    source="EC2 API reference, DescribeAvailabilityZones",
    calls=(ZONES,),
    subjects=_named_zones,
)
def _zones_open(zone: str, inquiry: Inquiry) -> Verdict:
    zones = inquiry.ask(ZONES, AllAvailabilityZones=True)["AvailabilityZones"]
    key = "ZoneId" if is_zone_id(zone) else "ZoneName"
    found = next((one for one in zones if one.get(key) == zone), None)
    if found is None:
        names = sorted(one[key] for one in zones if one.get("ZoneType") == "availability-zone")
        return failed(f"the account has no zone {zone}", fix=f"choose one of {words(names)}")
    if found.get("OptInStatus") == "not-opted-in":
        group = found.get("GroupName", zone)
        return failed(
            f"{zone} is not opted in to",
            fix=f"aws ec2 modify-availability-zone-group --group-name {group} --opt-in-status opted-in",
        )
    if found.get("State") != "available":
        said = words(one.get("Message", "") for one in found.get("Messages", ()))
        return failed(f"{zone} is {found.get('State')}: {said}", fix="wait, or choose another zone")
    return passed(f"{found['ZoneName']} is {found['ZoneId']} in this account")


def _chosen_zones(cluster: Cluster) -> Mapping[str, Cluster]:
    network = cluster.new_network
    return {} if network is None or network.control_availability_zones else {"network": cluster}


@define_check(
    "GPU-PRE-005",
    "the Region has two zones for what needs several",
    source='AWS EC2 user guide, "Regions and Zones"; this library\'s networks are in two or more zones',
    calls=(ZONES,),
    subjects=_chosen_zones,
    unless="the file names the zones, or the network exists",
)
def _enough_zones(_: Cluster, inquiry: Inquiry) -> Verdict:
    zones = inquiry.ask(ZONES, AllAvailabilityZones=True)["AvailabilityZones"]
    names = sorted(
        one["ZoneName"]
        for one in zones
        if one.get("ZoneType") == "availability-zone" and one.get("State") == "available"
    )
    if len(names) < 2:
        return failed(
            f"CloudFormation finds {len(names)} available zones, and the network needs two",
            fix="choose another Region",
        )
    return passed(f"CloudFormation takes two of {words(names)}")


# What `cdk deploy` needs in the account, and what prevents it.

# Qualifier of `cdk bootstrap` where the user names none, and the version that aws-cdk-lib 2.275 asks for.
_QUALIFIER = "hnb659fds"
_LEAST_BOOTSTRAP_VERSION = 6

_DELETE_FIRST = frozenset({"ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "CREATE_FAILED", "DELETE_FAILED"})


@define_check(
    "GPU-PRE-011",
    "the account is bootstrapped in the Region with the usual qualifier, recently enough",
    source='AWS CDK developer guide, "Bootstrap your environment"; aws-cdk-lib 2.275, DefaultStackSynthesizer',
    calls=(PARAMETER, CALLER),
    subjects=whole,
)
def _bootstrapped(cluster: Cluster, inquiry: Inquiry) -> Verdict:
    inquiry.start(CALLER)
    name = f"/cdk-bootstrap/{_QUALIFIER}/version"
    fix = _bootstrap(cluster, inquiry)
    found = inquiry.find(PARAMETER, Name=name)
    if found is None:
        return failed(f"{name} does not exist: {cluster.region} is not bootstrapped", fix=fix)
    version = int(found["Parameter"]["Value"])
    if version < _LEAST_BOOTSTRAP_VERSION:
        return failed(f"bootstrap version {version}, and {_LEAST_BOOTSTRAP_VERSION} is needed", fix=fix)
    return passed(f"bootstrap version {version}")


@define_check(
    "GPU-PRE-012",
    "the bucket of that bootstrap is there",
    source='AWS CDK developer guide, "Bootstrap your environment"; the nodes\' software is an asset in it',
    calls=(BUCKET, CALLER),
    subjects=whole,
)
def _asset_bucket(cluster: Cluster, inquiry: Inquiry) -> Verdict | None:
    account = inquiry.ask(CALLER)["Account"]
    name = f"cdk-{_QUALIFIER}-assets-{account}-{cluster.region}"
    if inquiry.find(BUCKET, Bucket=name) is not None:
        return None
    return failed(
        f"bucket {name} does not exist, where the nodes' software and large templates go",
        fix=f"{_bootstrap(cluster, inquiry)}; if it was deleted by hand, delete the stack CDKToolkit first",
    )


def _bootstrap(cluster: Cluster, inquiry: Inquiry) -> str:
    return f"cdk bootstrap aws://{inquiry.ask(CALLER)['Account']}/{cluster.region}"


@define_check(
    "GPU-PRE-013",
    "stacks that are there already can be updated",
    source='AWS CloudFormation user guide, "Stack status codes"',
    calls=(STACKS,),
    subjects=lambda cluster: {stack.name: stack.name for stack in cluster.plan.stacks},
)
def _stacks_updatable(name: str, inquiry: Inquiry) -> Verdict:
    found = inquiry.find(STACKS, StackName=name)
    if found is None:
        return passed("not there yet")
    status = str(found["Stacks"][0]["StackStatus"])
    if status in _DELETE_FIRST:
        return failed(
            f"{status}: CloudFormation updates it no more",
            fix=f"aws cloudformation delete-stack --stack-name {name}; look what it retains",
        )
    if status == "UPDATE_ROLLBACK_FAILED":
        return failed(
            f"{status}: CloudFormation takes no update before it is rolled back",
            fix=f"aws cloudformation continue-update-rollback --stack-name {name}",
        )
    if status.endswith("_IN_PROGRESS") and status != "REVIEW_IN_PROGRESS":
        return warned(f"{status}: someone is deploying it", fix="wait until it is done")
    return passed(status)
