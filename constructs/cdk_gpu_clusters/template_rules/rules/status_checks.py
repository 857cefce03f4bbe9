"""Application status checks of Amazon EC2 beside accelerated nodes."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.template_rules.case import Case, Resource
from cdk_gpu_clusters.template_rules.lookups.launches import accelerated_launch, launches
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, define_template_rule

STATUS_CHECK = "AWS::EC2::ApplicationStatusCheck"
_API = "EC2 API reference, CreateApplicationStatusCheck (botocore 1.43.106)"
_URL = "https://docs.aws.amazon.com/autoscaling/ec2/userguide/use-application-status-checks-auto-scaling-group.html"

# Least and greatest values, in the units of the property.
_BOUNDS = {
    "Interval": (60, 60),
    "Timeout": (1, 30),
    "InitializationGracePeriodSeconds": (1, 600),
}


@define_template_rule(
    "GPU-FLT-020",
    "an application status check has times that EC2 accepts",
    source=f"{_API}: the registry's schema has no bounds for most of them",
    cause="EC2 refuses the check",
    fix="use an allowed value, or leave the property out",
    url="https://docs.aws.amazon.com/botocore/latest/reference/services/ec2/client/"
    "create_application_status_check.html",
    on=(STATUS_CHECK,),
    looks_at=(*_BOUNDS, "Path"),
)
def times(resource: Resource) -> Iterator[Fault]:
    for name, (least, most) in _BOUNDS.items():
        value = resource.get(name)
        seconds = value.integer()
        if seconds is not None and not least <= seconds <= most:
            allowed = f"{least} s" if least == most else f"{least} to {most} s"
            yield Fault(at=value, got=f"{seconds} s", allowed=allowed)
    path = resource.get("Path")
    if not (path.text() or "/").startswith("/"):
        yield Fault(at=path, got=path.text() or "", allowed="a path that starts with /")


@define_template_rule(
    "GPU-FLT-021",
    "an application status check beside accelerated nodes states its aggregation",
    source=f'{_API}: included by default; EC2 Auto Scaling guide, "Use application status checks with an Auto Scaling '
    'group": instances whose overall status is impaired are terminated without further configuration',
    severity=Severity.WARNING,
    cause="it is included by default: EC2 Auto Scaling then ends a node, with its jobs, after two failed probes",
    fix="set Aggregation to excluded to watch only, or to included to let nodes be replaced",
    url=_URL,
    on=(STATUS_CHECK,),
    looks_at=("Aggregation", "AWS::EC2::LaunchTemplate/LaunchTemplateData/InstanceType"),
)
def aggregation(resource: Resource) -> Iterator[Fault]:
    if not resource.case.once(_has_accelerated_nodes):
        raise NotApplicable
    value = resource.get("Aggregation")
    if not value.exists:
        yield Fault(at=value, got="included, by default", allowed="included or excluded")


def _has_accelerated_nodes(case: Case) -> bool:
    for launch in launches(case):
        try:
            accelerated_launch(launch.resource)
        except NotApplicable:
            continue
        return True
    return False
