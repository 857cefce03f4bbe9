"""Versions of launch templates.

Source: CloudFormation template reference, AWS::EC2::LaunchTemplate (a change makes a version and leaves the default).
"""

from __future__ import annotations

from .world import Json, Resource, World


def first_version(world: World, resource: Resource) -> None:
    """Give a new launch template its name and its version 1."""
    name = resource.properties.get("LaunchTemplateName") or world.new_id(
        f"{resource.stack_name}-", resource.logical_id
    )
    resource.attributes |= {
        "LaunchTemplateName": name,
        "DefaultVersionNumber": "1",
        "LatestVersionNumber": "1",
    }
    resource.versions = [_version(world, resource, 1)]


def add_version(world: World, resource: Resource) -> None:
    """Add a version where the data of a launch template changed."""
    if resource.properties["LaunchTemplateData"] == resource.versions[-1]["LaunchTemplateData"]:
        return
    number = len(resource.versions) + 1
    resource.versions.append(_version(world, resource, number))
    resource.attributes["LatestVersionNumber"] = str(number)


def _version(world: World, resource: Resource, number: int) -> Json:
    return {
        "LaunchTemplateId": resource.physical_id,
        "LaunchTemplateName": resource.attributes["LaunchTemplateName"],
        "VersionNumber": number,
        "VersionDescription": resource.properties.get("VersionDescription", ""),
        "DefaultVersion": number == 1,
        "CreateTime": world.clock.now(),
        "LaunchTemplateData": resource.properties["LaunchTemplateData"],
    }
