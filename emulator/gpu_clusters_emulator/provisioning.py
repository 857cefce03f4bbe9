"""Create, update and delete the resource types that this library models, and every type the engine lacks.

A type without a special case gets what its registry schema states: `Ref` is the primary identifier, read-only
properties get made-up values, a change of a create-only property replaces.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from . import batch_jobs, fleets, node_groups, nodes, pcs
from .clock import format_time
from .faults import Fault, Refused, refuse
from .models.batch import replaced_environment
from .models.home_file_systems import OPENZFS_REPLACING, is_openzfs
from .models.load_balancing import settings_after
from .models.lustre import REPLACING, configuration
from .models.pcs_clusters import new_cluster_faults
from .schemas import ResourceSchema, resource_schema
from .world import Json, Resource, Type, World, add_version, first_version

MODELLED_TYPES = frozenset(
    {
        Type.LAUNCH_TEMPLATE,
        Type.CAPACITY_RESERVATION,
        Type.AUTO_SCALING_GROUP,
        Type.CLUSTER,
        Type.LISTENER,
        Type.LISTENER_RULE,
        Type.LOAD_BALANCER,
        Type.NODE_GROUP,
        *pcs.TYPES,
        Type.COMPUTE_ENVIRONMENT,
        Type.JOB_DEFINITION,
        Type.JOB_QUEUE,
        Type.SCALING_POLICY,
        Type.TARGET_GROUP,
        "AWS::EC2::PlacementGroup",
        "AWS::EC2::SecurityGroupIngress",
        "AWS::EC2::SecurityGroupEgress",
        "AWS::AutoScaling::LifecycleHook",
        "AWS::AutoScaling::ScheduledAction",
        "AWS::AutoScaling::WarmPool",
    }
)
_PREFIXES: Mapping[str, str] = {
    Type.LAUNCH_TEMPLATE: "lt-",
    Type.CAPACITY_RESERVATION: "cr-",
    "AWS::EC2::EIP": "eipalloc-",
    "AWS::EC2::FlowLog": "fl-",
    "AWS::EC2::NatGateway": "nat-",
    "AWS::EC2::SecurityGroupEgress": "sgr-",
    "AWS::EC2::SecurityGroupIngress": "sgr-",
    "AWS::FSx::DataRepositoryAssociation": "dra-",
    "AWS::FSx::FileSystem": "fs-",
    "AWS::EFS::FileSystem": "fs-",
    "AWS::EFS::MountTarget": "fsmt-",
}
_REF: Mapping[str, str] = {Type.JOB_DEFINITION: "JobDefinitionArn", "AWS::EC2::EIP": "PublicIp"}


def create(
    world: World,
    type_name: str,
    logical_id: str,
    properties: Json,
    stack_name: str,
    *,
    update_policy: Json | None = None,
) -> Resource:
    """Make a resource and record it; the checks have run."""
    schema = resource_schema(type_name, world.region)
    if schema is None:
        raise Refused(type_name, [Fault("type", "the registry has no such type")])
    attributes = _attributes(world, schema, logical_id, properties, stack_name)
    physical_id = _physical_id(schema, attributes, properties)
    resource = Resource(
        type=type_name,
        logical_id=logical_id,
        physical_id=physical_id,
        stack_name=stack_name,
        region=world.region,
        properties=properties,
        attributes=attributes,
        update_policy=update_policy or {},
    )
    if world.find(type_name, physical_id) is not None:
        raise Refused(type_name, [Fault("exists", f"{physical_id!r} already exists")])
    _CREATED.get(type_name, _nothing)(world, resource)
    world.add(resource)
    _STARTED.get(type_name, _nothing)(world, resource)
    return resource


def replaces(type_name: str, old: Json, new: Json) -> bool:
    """Whether an update from `old` to `new` replaces the resource.

    Raises:
        Refused: If it would, and the resource has a name of its own that stays the same.
    """
    schema = resource_schema(type_name)
    if schema is None:
        return False
    changed = [name for name in schema.create_only_names if old.get(name) != new.get(name)]
    changed += _changed_inside(type_name, old, new)
    kept = [name for name in schema.primary_identifier if name in old and old.get(name) == new.get(name)]
    if changed and kept and len(kept) == len(schema.primary_identifier):
        message = "CloudFormation cannot update a stack when a custom-named resource requires replacing: "
        message += f"{', '.join(changed)} changed and {old[kept[0]]!r} did not"
        raise Refused(type_name, [Fault("custom-name", message)])
    return bool(changed)


def may_replace(type_name: str, name: str) -> bool:
    """Whether a change of a property replaces the resource under conditions that its schema does not name."""
    return type_name == Type.FILE_SYSTEM and name in ("LustreConfiguration", "OpenZFSConfiguration", *REPLACING)


def _changed_inside(type_name: str, old: Json, new: Json) -> list[str]:
    """Changed properties that replace the resource and are inside others, or that its schema does not name."""
    if type_name != Type.FILE_SYSTEM:
        schema = resource_schema(type_name)
        paths = schema.create_only if schema else ()
        changed = [path for path in paths if "." in path and _inside(old, path) != _inside(new, path)]
        return changed + (replaced_environment(old, new) if type_name == Type.COMPUTE_ENVIRONMENT else [])
    if is_openzfs(new):
        before, after = (one.get("OpenZFSConfiguration", {}) for one in (old, new))
        return sorted(name for name in OPENZFS_REPLACING if before.get(name) != after.get(name))
    before, after = {**old, **configuration(old)}, {**new, **configuration(new)}
    return sorted(name for name in REPLACING if before.get(name) != after.get(name))


def _inside(properties: Json, path: str) -> object:
    found: object = properties
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def update(world: World, resource: Resource, properties: Json, *, update_policy: Json | None = None) -> None:
    """Change a resource in place; the checks have run."""
    resource.properties, resource.update_policy = properties, update_policy or {}
    _UPDATED.get(resource.type, _nothing)(world, resource)


def delete(world: World, type_name: str, physical_id: str) -> None:
    """Remove a resource; the checks have run."""
    resource = world.find(type_name, physical_id)
    if type_name == Type.AUTO_SCALING_GROUP:
        world.groups.pop(physical_id, None)
    elif type_name == Type.NODE_GROUP and resource is not None:
        node_groups.end(world, resource)
    elif type_name == Type.PCS_NODE_GROUP and resource is not None:
        pcs.end(world, resource)
    elif type_name == Type.PCS_QUEUE and resource is not None:
        pcs.close_queue(world, resource)
    elif type_name == Type.COMPUTE_ENVIRONMENT and resource is not None:
        batch_jobs.close_environment(world, resource)
    elif type_name == Type.JOB_QUEUE and resource is not None:
        batch_jobs.close_queue(world, resource)
    world.remove(type_name, physical_id)


def _nothing(_world: World, _resource: Resource) -> None:
    return None


def _physical_id(schema: ResourceSchema, attributes: Json, properties: Json) -> str:
    if schema.type_name in _REF:
        return str(attributes[_REF[schema.type_name]])
    parts = [attributes.get(name) or properties.get(name) or "" for name in schema.primary_identifier]
    return "|".join(str(part) for part in parts)


def _attributes(world: World, schema: ResourceSchema, logical_id: str, given: Json, stack_name: str) -> Json:
    seed = f"{stack_name}/{logical_id}/{schema.type_name}"
    identifier = world.new_id(_PREFIXES.get(schema.type_name, ""), seed)
    name = f"{stack_name}-{logical_id}-{world.new_id('', seed + '/name', 12).upper()}"
    arn = world.arn(*_arn_parts(schema.type_name, identifier))
    attributes: Json = {}
    for path in schema.read_only:
        _place(attributes, path, _made_up(path, identifier, name, arn))
    for path in schema.primary_identifier:  # a name that the template leaves to CloudFormation
        if path not in attributes:
            attributes[path] = given.get(path) or _made_up(path, identifier, name, arn)
    birth = Birth(world=world, stack_name=stack_name, logical_id=logical_id, identifier=identifier, given=given)
    return attributes | special_attributes(schema.type_name, birth)


def _place(attributes: Json, path: str, value: object) -> None:
    *parents, leaf = path.split(".")
    if "*" in path:
        return
    attributes[path] = value  # GetAtt on a nested attribute uses the dotted form
    for parent in parents:
        if not isinstance(attributes.get(parent), dict):  # it was named before what is inside it
            attributes[parent] = {}
        attributes = attributes[parent]
    attributes[leaf] = value


def _arn_parts(type_name: str, identifier: str) -> tuple[str, str]:
    _, service, kind = type_name.split("::")
    dashed = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", kind).lower()
    return service.lower(), f"{dashed}/{identifier}"


def _made_up(path: str, identifier: str, name: str, arn: str) -> str:
    leaf = path.rsplit(".", 1)[-1].lower()
    if leaf.endswith("arn"):
        return arn
    if leaf.endswith("id"):
        return identifier
    if leaf.endswith("name"):
        return name
    if leaf.endswith("ip"):
        return f"203.0.113.{int(identifier[-2:], 16) % 254 + 1}"  # RFC 5737, TEST-NET-3
    return f"{path}-{identifier}"


def _create_capacity_reservation(world: World, resource: Resource) -> None:
    count = resource.properties["InstanceCount"]
    now = format_time(world.clock.now())
    resource.attributes |= {
        "AvailableInstanceCount": count,
        "TotalInstanceCount": count,
        "CreateDate": now,
        "StartDate": now,
        "State": "active",
        "ReservationType": "default",
    }


def _update_capacity_reservation(_world: World, resource: Resource) -> None:
    count = resource.properties["InstanceCount"]
    resource.attributes |= {"AvailableInstanceCount": count, "TotalInstanceCount": count}


def _create_auto_scaling_group(world: World, resource: Resource) -> None:
    arn = world.arn(
        "autoscaling",
        f"autoScalingGroup:{world.new_id('', resource.logical_id, 32)}:autoScalingGroupName/{resource.physical_id}",
    )
    resource.attributes |= {"AutoScalingGroupARN": arn}


def _check_sizes(_world: World, resource: Resource) -> None:
    """A node group is created with all of its sizes or with none: EKS API, NodegroupScalingConfig."""
    missing = sorted({"MinSize", "MaxSize", "DesiredSize"} - resource.properties["ScalingConfig"].keys())
    if missing:
        message = f"a node group is created with all of its sizes or none; missing: {', '.join(missing)}"
        raise Refused(f"{resource.type} {resource.logical_id}", [Fault("node-group-sizes", message, "ScalingConfig")])


def _begin_pcs_cluster(world: World, resource: Resource) -> None:
    refuse(f"{resource.type} {resource.logical_id}", new_cluster_faults(resource.properties))
    pcs.begin(world, resource)


def _update_group(world: World, resource: Resource) -> None:
    fleets.update_group(world, resource)
    nodes.refresh(world, resource)


def _settle_attributes(_world: World, resource: Resource) -> None:
    name = f"{resource.type.rsplit('::', 1)[-1]}Attributes"
    resource.settings = settings_after(resource.settings, resource.properties.get(name, []))


_CREATED: Mapping[str, Callable[[World, Resource], None]] = {
    Type.LAUNCH_TEMPLATE: first_version,
    Type.CAPACITY_RESERVATION: _create_capacity_reservation,
    Type.AUTO_SCALING_GROUP: _create_auto_scaling_group,
    Type.LOAD_BALANCER: _settle_attributes,
    Type.NODE_GROUP: _check_sizes,
    Type.PCS_CLUSTER: _begin_pcs_cluster,
    Type.PCS_NODE_GROUP: pcs.begin,
    Type.PCS_QUEUE: pcs.begin,
    Type.TARGET_GROUP: _settle_attributes,
}
_STARTED: Mapping[str, Callable[[World, Resource], None]] = {
    Type.AUTO_SCALING_GROUP: fleets.create_group,
    Type.COMPUTE_ENVIRONMENT: batch_jobs.open_environment,
    Type.NODE_GROUP: node_groups.start,
    Type.PCS_NODE_GROUP: pcs.start,
    Type.PCS_QUEUE: pcs.open_queue,
}
_UPDATED: Mapping[str, Callable[[World, Resource], None]] = {
    Type.LAUNCH_TEMPLATE: add_version,
    Type.CAPACITY_RESERVATION: _update_capacity_reservation,
    Type.AUTO_SCALING_GROUP: _update_group,
    Type.COMPUTE_ENVIRONMENT: batch_jobs.change_environment,
    Type.LOAD_BALANCER: _settle_attributes,
    Type.NODE_GROUP: node_groups.change,
    Type.PCS_CLUSTER: pcs.change_cluster,
    Type.PCS_NODE_GROUP: pcs.change,
    Type.PCS_QUEUE: pcs.change_queue,
    Type.TARGET_GROUP: _settle_attributes,
}


# Names, ARNs and addresses with a form of their own, which other resources or programs take apart. Sources of the
# forms: CloudFormation template reference, return values of each type; Elastic Load Balancing API, `LoadBalancer`
# and `TargetGroup`; Amazon S3 user guide, "Directory bucket naming rules"; IAM service authorization reference,
# "Amazon EKS" and "Amazon CloudWatch Logs" (ARNs); AWS PCS user guide, "Use AWS PCS to find the cluster secret" and
# "Get compute node group details". Stored copies of 2026.

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
    """What replaces the made-up attributes of a type; empty for most."""
    special = _SPECIAL.get(type_name)
    return special(birth) if special else {}


def _efs(birth: Birth) -> Json:
    return {"Arn": birth.world.arn("elasticfilesystem", f"file-system/{birth.identifier}")}


def _file_system(birth: Birth) -> Json:
    scratch_1 = birth.given.get("LustreConfiguration", {}).get("DeploymentType") == "SCRATCH_1"
    return {
        "DNSName": f"{birth.identifier}.fsx.{birth.world.region}.{birth.world.url_suffix}",
        "LustreMountName": "fsx" if scratch_1 else birth.short_id("mount", 8),
        "ResourceARN": birth.world.arn("fsx", f"file-system/{birth.identifier}"),
        # FSx API reference, OpenZFSFileSystemConfiguration: RootVolumeId, fsvol- and 17 digits.
        "RootVolumeId": f"fsvol-{birth.identifier.partition('-')[2]}",
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
    name = birth.given.get("PolicyName") or f"{birth.stack_name}-{birth.logical_id}-{birth.short_id('name', 12)}"
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


def _pcs_cluster(birth: Birth) -> Json:
    identifier = f"pcs_{birth.short_id('cluster', 10)}"
    return {
        "Id": identifier,
        "Arn": birth.world.arn("pcs", f"cluster/{identifier}"),
        "Endpoints": pcs.endpoints(identifier, birth.given),
        "ErrorInfo": [],
        "Status": pcs.ACTIVE,
    }


def _hyperpod_cluster(birth: Birth) -> Json:
    """Its attributes; the id has 12 digits by the schema."""
    arn = birth.world.arn("sagemaker", f"cluster/{birth.short_id('cluster', 12)}")
    return {"ClusterArn": arn, "ClusterStatus": "InService", "FailureMessage": ""}


def _pcs_node_group(birth: Birth) -> Json:
    return _pcs_part(birth, "computenodegroup")


def _pcs_queue(birth: Birth) -> Json:
    return _pcs_part(birth, "queue")


def _pcs_part(birth: Birth, kind: str) -> Json:
    """The attributes of a part of a cluster; CloudFormation waits until it is ACTIVE."""
    identifier = f"pcs_{birth.short_id(kind, 10)}"
    cluster = birth.world.pcs_cluster(birth.given["ClusterId"])
    above = cluster.attributes["Id"] if cluster else birth.given["ClusterId"]
    arn = birth.world.arn("pcs", f"cluster/{above}/{kind}/{identifier}")
    return {"Id": identifier, "Arn": arn, "ErrorInfo": [], "Status": pcs.ACTIVE}


def _job_definition(birth: Birth) -> Json:
    """`Ref` is the ARN of the first revision (template reference); an update keeps it here."""
    name = birth.given.get("JobDefinitionName") or f"{birth.logical_id[:80]}-{birth.short_id('name', _SUFFIX_LENGTH)}"
    return {"JobDefinitionName": name, "JobDefinitionArn": birth.world.arn("batch", f"job-definition/{name}:1")}


def _delivery(birth: Birth) -> Json:
    identifier = birth.short_id("delivery", 16)
    return {"DeliveryId": identifier, "Arn": birth.world.arn("logs", f"delivery:{identifier}")}


def _delivery_destination(birth: Birth) -> Json:
    return {"Arn": birth.world.arn("logs", f"delivery-destination:{birth.given['Name']}")}


def _delivery_source(birth: Birth) -> Json:
    arn = birth.given["ResourceArn"]
    made = {"Arn": birth.world.arn("logs", f"delivery-source:{birth.given['Name']}"), "ResourceArns": [arn]}
    return {**made, "Service": arn.split(":")[2], "Status": "ACTIVE"}


def _resource_group(birth: Birth) -> Json:
    return {"Arn": birth.world.arn("resource-groups", f"group/{birth.given['Name']}")}


_SPECIAL: Mapping[str, Callable[[Birth], Json]] = {
    Type.ACCESS_ENTRY: _access_entry,
    Type.ADD_ON: _add_on,
    Type.CLUSTER: _cluster,
    Type.DATA_REPOSITORY: _data_repository,
    Type.DELIVERY: _delivery,
    Type.DELIVERY_DESTINATION: _delivery_destination,
    Type.DELIVERY_SOURCE: _delivery_source,
    Type.DIRECTORY_BUCKET: _directory_bucket,
    Type.EFS: _efs,
    Type.FILE_SYSTEM: _file_system,
    Type.JOB_DEFINITION: _job_definition,
    Type.HYPERPOD_CLUSTER: _hyperpod_cluster,
    Type.LISTENER: _listener,
    Type.LISTENER_RULE: _listener_rule,
    Type.LOAD_BALANCER: _load_balancer,
    Type.NODE_GROUP: _node_group,
    Type.PCS_CLUSTER: _pcs_cluster,
    Type.PCS_NODE_GROUP: _pcs_node_group,
    Type.PCS_QUEUE: _pcs_queue,
    Type.POD_IDENTITY: _pod_identity,
    Type.SCALING_POLICY: _scaling_policy,
    Type.TARGET_GROUP: _target_group,
    "AWS::ResourceGroups::Group": _resource_group,
}
