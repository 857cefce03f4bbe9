"""What the rules about images share: one is looked up by its public parameter, and compared with each type."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Rule
from cdk_gpu_clusters.rules.images import check_image
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.launches import accelerated_launch, image_of
from cdk_gpu_clusters.template_rules.rule import Check, Fault, NotApplicable, faults_of

LOOKS_AT = ("LaunchTemplateData/ImageId", "LaunchTemplateData/InstanceType")


def checks_image(rule: Rule) -> Check:
    """The check of a rule of `rules.images`."""

    def check(resource: Resource) -> Iterator[Fault]:
        launch = accelerated_launch(resource)
        image = image_of(launch)
        if image is None:
            raise NotApplicable  # the orchestrator chooses one
        for _, record in launch.records():
            yield from faults_of(rule, check_image(record, image), launch.data.get("ImageId"))

    return check
