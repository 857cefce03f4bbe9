"""A stack in an imported network, and ways to look at its template."""

from __future__ import annotations

import json
import re
from typing import Any, Protocol

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk.assertions import Template

Resources = dict[str, dict[str, Any]]
ZONE = "us-east-1a"


class Site:
    """One app with one stack in an existing network: a private subnet in each of two zones, and a public one."""

    def __init__(self, app: cdk.App, env: cdk.Environment | None) -> None:
        self.app = app
        self.stack = cdk.Stack(app, "Site", env=env)
        self.vpc = ec2.Vpc.from_vpc_attributes(
            self.stack,
            "Vpc",
            vpc_id="vpc-0123456789abcdef0",
            availability_zones=[ZONE, "us-east-1b"],
            private_subnet_ids=["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"],
            private_subnet_route_table_ids=["rtb-0123456789abcdef0", "rtb-0123456789abcdef1"],
            public_subnet_ids=["subnet-0123456789abcdef2", "subnet-0123456789abcdef3"],
            public_subnet_route_table_ids=["rtb-0123456789abcdef2", "rtb-0123456789abcdef3"],
        )

    @property
    def one_subnet(self) -> ec2.SubnetSelection:
        """The first private subnet."""
        return ec2.SubnetSelection(subnets=[self.vpc.private_subnets[0]])

    def template(self) -> dict[str, Any]:
        """The stack's template; the app is synthesized once, and is finished then."""
        return dict(Template.from_stack(self.stack).to_json())

    def resources(self) -> Resources:
        """The stack's resources by logical id."""
        resources: Resources = self.template()["Resources"]
        return resources


class SiteFactory(Protocol):
    """Makes a `Site`: the fixture `make_site`."""

    def __call__(self, *, env: cdk.Environment | None = None, **options: Any) -> Site:
        """Make a site in an app of its own; options go to the fixture `app_factory`."""
        ...


def of_type(resources: Resources, resource_type: str) -> Resources:
    """The resources of one type."""
    return {key: value for key, value in resources.items() if value["Type"] == resource_type}


def only(resources: Resources, resource_type: str) -> dict[str, Any]:
    """The properties of the one resource of a type."""
    (resource,) = of_type(resources, resource_type).values()
    properties: dict[str, Any] = resource["Properties"]
    return properties


def node_roles(resources: Resources) -> Resources:
    """The roles of nodes: those that EC2 assumes for an instance."""
    roles = of_type(resources, "AWS::IAM::Role")
    return {
        name: role
        for name, role in roles.items()
        if '"ec2.amazonaws.com"' in json.dumps(role["Properties"]["AssumeRolePolicyDocument"])
    }


_ARCHIVE = re.compile(r"[A-Za-z0-9+/]{400,}={0,2}")
_DIGEST = re.compile(r"\b[0-9a-f]{64}\b")


def readable(value: Any) -> Any:
    """A template for a snapshot: compressed archives, whose bytes depend on the zlib at hand, are named only.

    So are digests of assets, which change with every line of the nodes' software, and with them CDK's order of ARNs.
    """
    if isinstance(value, dict):
        seen = {key: readable(inner) for key, inner in value.items()}
        if isinstance(seen.get("Resource"), list) and "(digest)" in json.dumps(seen["Resource"]):
            seen["Resource"].sort(key=json.dumps)
        return seen
    if isinstance(value, list):
        return [readable(inner) for inner in value]
    if not isinstance(value, str):
        return value
    return _DIGEST.sub("(digest)", _ARCHIVE.sub("(archive)", value))
