"""Names, ARNs and addresses with a form of their own, which other resources or programs take apart.

Sources of the forms: CloudFormation template reference, return values of each type; Elastic Load Balancing API,
`LoadBalancer` and `TargetGroup`; Amazon S3 user guide, "Directory bucket naming rules"; IAM service authorization
reference, "Amazon EKS" (ARNs). Stored copies of 2026.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .world import (
    ACCESS_ENTRY,
    ADD_ON,
    CLUSTER,
    DATA_REPOSITORY,
    DIRECTORY_BUCKET,
    FILE_SYSTEM,
    LISTENER,
    LISTENER_RULE,
    LOAD_BALANCER,
    NODE_GROUP,
    POD_IDENTITY,
    SCALING_POLICY,
    TARGET_GROUP,
    Json,
    World,
)

_NAME_LIMIT = 32  # of load balancers and target groups
_SUFFIX_LENGTH = 12
_ARN_TYPES = {"application": "app", "network": "net", "gateway": "gwy"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Birth:
    """A resource that is being made.

    Attributes:
        identifier: The id that it has by default, such as `fs-0123456789abcdef0`.
        given: Its properties.
    """

    world: World
    stack_name: str
    logical_id: str
    identifier: str
    given: Json

    def short_id(self, kind: str, length: int = 16) -> str:
        """A made-up id of hexadecimal digits."""
        return self.world.new_id("", f"{self.stack_name}/{self.logical_id}/{kind}", length)

    def balancer_name(self) -> str:
        """The name that the template gives, or one as CloudFormation makes them: 32 characters at most."""
        if "Name" in self.given:
            return str(self.given["Name"])
        stem = re.sub(r"[^a-zA-Z0-9-]", "", f"{self.stack_name}-{self.logical_id}")
        suffix = self.short_id("name", _SUFFIX_LENGTH).upper()
        return f"{stem[: _NAME_LIMIT - _SUFFIX_LENGTH - 1].rstrip('-')}-{suffix}"


def special_attributes(type_name: str, birth: Birth) -> Json:
    """What stands in place of the made-up attributes of a type; empty for most."""
    special = _SPECIAL.get(type_name)
    return special(birth) if special else {}


def _file_system(birth: Birth) -> Json:
    scratch_1 = birth.given.get("LustreConfiguration", {}).get("DeploymentType") == "SCRATCH_1"
    return {
        "DNSName": f"{birth.identifier}.fsx.{birth.world.region}.{birth.world.url_suffix}",
        "LustreMountName": "fsx" if scratch_1 else birth.short_id("mount", 8),
        "ResourceARN": birth.world.arn("fsx", f"file-system/{birth.identifier}"),
    }


def _data_repository(birth: Birth) -> Json:
    path = f"association/{birth.given['FileSystemId']}/{birth.identifier}"
    return {"ResourceARN": birth.world.arn("fsx", path)}


def _load_balancer(birth: Birth) -> Json:
    name = birth.balancer_name()
    internal = "internal-" if birth.given.get("Scheme") == "internal" else ""
    full = f"{_ARN_TYPES[birth.given.get('Type', 'application')]}/{name}/{birth.short_id('balancer')}"
    number = int(birth.short_id("address", 8), 16)
    return {
        "LoadBalancerName": name,
        "LoadBalancerFullName": full,
        "LoadBalancerArn": birth.world.arn("elasticloadbalancing", f"loadbalancer/{full}"),
        "DNSName": f"{internal}{name}-{number}.{birth.world.region}.elb.{birth.world.url_suffix}",
    }


def _target_group(birth: Birth) -> Json:
    name = birth.balancer_name()
    full = f"targetgroup/{name}/{birth.short_id('targets')}"
    return {
        "TargetGroupName": name,
        "TargetGroupFullName": full,
        "TargetGroupArn": birth.world.arn("elasticloadbalancing", full),
    }


def _listener(birth: Birth) -> Json:
    above = str(birth.given["LoadBalancerArn"]).replace(":loadbalancer/", ":listener/")
    return {"ListenerArn": f"{above}/{birth.short_id('listener')}"}


def _listener_rule(birth: Birth) -> Json:
    above = str(birth.given["ListenerArn"]).replace(":listener/", ":listener-rule/")
    return {"RuleArn": f"{above}/{birth.short_id('rule')}", "IsDefault": False}


def _scaling_policy(birth: Birth) -> Json:
    name = (
        birth.given.get("PolicyName") or f"{birth.stack_name}-{birth.logical_id}-{birth.short_id('name', 12)}"
    )
    path = f"scalingPolicy:{birth.short_id('policy', 32)}:autoScalingGroupName/{birth.given['AutoScalingGroupName']}"
    return {"PolicyName": name, "Arn": birth.world.arn("autoscaling", f"{path}:policyName/{name}")}


def _directory_bucket(birth: Birth) -> Json:
    stem = re.sub(r"[^a-z0-9-]", "", f"{birth.stack_name}-{birth.logical_id}".lower())[:20].rstrip("-")
    made = f"{stem}-{birth.short_id('name', _SUFFIX_LENGTH)}--{birth.given['LocationName']}--x-s3"
    name = birth.given.get("BucketName", made)
    return {"BucketName": name, "Arn": birth.world.arn("s3express", f"bucket/{name}")}


def _cluster(birth: Birth) -> Json:
    name = birth.given.get("Name") or f"{birth.logical_id[:80]}-{birth.short_id('name', _SUFFIX_LENGTH)}"
    identity, region = birth.short_id("issuer", 32).upper(), birth.world.region
    keys = [one["Provider"]["KeyArn"] for one in birth.given.get("EncryptionConfig", [])]
    return {
        "Name": name,
        "Arn": birth.world.arn("eks", f"cluster/{name}"),
        "Endpoint": f"https://{identity}.gr7.{region}.eks.{birth.world.url_suffix}",
        "CertificateAuthorityData": base64.b64encode(f"made up for {name}".encode()).decode(),
        "ClusterSecurityGroupId": birth.world.new_id("sg-", f"{birth.stack_name}/{birth.logical_id}/group"),
        "EncryptionConfigKeyArn": next(iter(keys), ""),
        "OpenIdConnectIssuerUrl": f"https://oidc.eks.{region}.{birth.world.url_suffix}/id/{identity}",
    }


def _node_group(birth: Birth) -> Json:
    cluster = birth.given["ClusterName"]
    made = f"{birth.logical_id[:50]}-{birth.short_id('name', _SUFFIX_LENGTH)}"
    name = birth.given.get("NodegroupName", made)
    return {
        "Id": f"{cluster}/{name}",
        "Arn": birth.world.arn("eks", f"nodegroup/{cluster}/{name}/{birth.short_id('group', 32)}"),
        "ClusterName": cluster,
        "NodegroupName": name,
    }


def _add_on(birth: Birth) -> Json:
    path = f"addon/{birth.given['ClusterName']}/{birth.given['AddonName']}/{birth.short_id('add-on', 32)}"
    return {"Arn": birth.world.arn("eks", path)}


def _access_entry(birth: Birth) -> Json:
    _, _, _, _, account, principal = birth.given["PrincipalArn"].split(":", 5)
    kind, _, name = principal.partition("/")
    path = f"access-entry/{birth.given['ClusterName']}/{kind}/{account}/{name}/{birth.short_id('entry', 32)}"
    return {"AccessEntryArn": birth.world.arn("eks", path)}


def _pod_identity(birth: Birth) -> Json:
    identifier = f"a-{birth.short_id('pod', 17)}"
    path = f"podidentityassociation/{birth.given['ClusterName']}/{identifier}"
    return {"AssociationId": identifier, "AssociationArn": birth.world.arn("eks", path)}


_SPECIAL: Mapping[str, Callable[[Birth], Json]] = {
    ACCESS_ENTRY: _access_entry,
    ADD_ON: _add_on,
    CLUSTER: _cluster,
    DATA_REPOSITORY: _data_repository,
    DIRECTORY_BUCKET: _directory_bucket,
    FILE_SYSTEM: _file_system,
    LISTENER: _listener,
    LISTENER_RULE: _listener_rule,
    LOAD_BALANCER: _load_balancer,
    NODE_GROUP: _node_group,
    POD_IDENTITY: _pod_identity,
    SCALING_POLICY: _scaling_policy,
    TARGET_GROUP: _target_group,
}
