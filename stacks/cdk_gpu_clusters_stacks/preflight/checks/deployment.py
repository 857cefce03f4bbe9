"""What `cdk deploy` needs in the account, and what prevents it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cdk_gpu_clusters.errors import define_rule

from ..answer import Absent
from ..call import BUCKET, CALLER, PARAMETER, STACKS
from ..check import Check, Inquiry, Verdict, failed, passed, warned, whole
from ..cluster import Cluster

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


CHECKS = (
    Check(rule=BOOTSTRAPPED, calls=(PARAMETER, CALLER), subjects=whole, judge=_bootstrap),
    Check(rule=ASSET_BUCKET, calls=(BUCKET, CALLER), subjects=whole, judge=_bucket),
    Check(rule=STACKS_UPDATABLE, calls=(STACKS,), subjects=_stacks, judge=_stack),
)
