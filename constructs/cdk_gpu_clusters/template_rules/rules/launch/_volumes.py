"""What the rules about volumes share."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Rule
from cdk_gpu_clusters.rules.root_volume import check_root_volume
from cdk_gpu_clusters.template_rules.case import Resource, Value
from cdk_gpu_clusters.template_rules.lookups.launches import Launch, accelerated_launch
from cdk_gpu_clusters.template_rules.rule import Check, Fault, NotApplicable, faults_of

URL = "https://docs.aws.amazon.com/ebs/latest/userguide/general-purpose.html"
LOOKS_AT = (
    "LaunchTemplateData/BlockDeviceMappings/*/Ebs/VolumeType",
    "LaunchTemplateData/BlockDeviceMappings/*/Ebs/VolumeSize",
    "LaunchTemplateData/BlockDeviceMappings/*/Ebs/Iops",
    "LaunchTemplateData/BlockDeviceMappings/*/Ebs/Throughput",
)
# What EBS gives a gp3 volume for which nothing is said (Amazon EBS user guide, "General Purpose SSD volumes").
_BASE_IOPS = 3000
_BASE_THROUGHPUT_MIB_PER_S = 125


def volumes_of(launch: Launch) -> list[Value]:
    """The EBS volumes that a launch describes."""
    described = [mapping.get("Ebs") for mapping in launch.data.get("BlockDeviceMappings").items()]
    return [volume for volume in described if volume.exists]


def checks_gp3(rule: Rule) -> Check:
    """The check of a rule of `rules.root_volume`, for every gp3 volume of known size."""

    def check(resource: Resource) -> Iterator[Fault]:
        volumes = [one for one in volumes_of(accelerated_launch(resource)) if _is_sized_gp3(one)]
        if not volumes:
            raise NotApplicable
        for volume in volumes:
            iops, throughput = volume.get("Iops").integer(), volume.get("Throughput").integer()
            findings = check_root_volume(
                size_gib=volume.get("VolumeSize").integer() or 0,
                iops=_BASE_IOPS if iops is None else iops,
                throughput_mib_per_s=_BASE_THROUGHPUT_MIB_PER_S if throughput is None else throughput,
            )
            yield from faults_of(rule, findings, volume, own_fix=True)

    return check


def _is_sized_gp3(volume: Value) -> bool:
    return volume.get("VolumeType").text() == "gp3" and volume.get("VolumeSize").exists
