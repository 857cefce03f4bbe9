"""What exists in the account before the first deploy, as JSON.

No CloudFormation type buys a Capacity Block, and a cluster file may name reservations, subnets, security groups,
buckets, certificates and clusters of EKS and AWS PCS that exist already: those are seeded.

Example:
    {"reservations": [{"id": "cr-0123456789abcdef0", "instance_type": "p5.48xlarge", "availability_zone": "us-east-1a",
                       "count": 16, "kind": "capacity-block",
                       "starts_at": "2026-12-01T11:30Z", "ends_at": "2026-12-15T11:30Z"}],
     "reservation_groups": {"ultraservers": ["cr-0123456789abcdef0"]},
     "vpcs": ["vpc-0123456789abcdef0"],
     "subnets": {"subnet-0123456789abcdef0": "us-east-1a"},
     "security_groups": ["sg-0123456789abcdef0"],
     "placement_groups": {"rack": "cluster"},
     "buckets": {"my-corpus": "us-east-1"},
     "certificates": ["arn:aws:acm:us-east-1:123456789012:certificate/c-1"],
     "clusters": {"shared": {"version": "1.35", "security_group": "sg-0123456789abcdef1",
                             "subnets": ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"]}},
     "pcs_clusters": {"shared": {"version": "25.11", "size": "MEDIUM", "subnet": "subnet-0123456789abcdef0",
                                 "security_groups": ["sg-0123456789abcdef0"], "status": "CREATING"}},
     "nodes": {"boot_minutes": 5, "drain_minutes": 1, "log_group": "/gpu-cluster/trainers"},
     "now": "2026-11-21T08:00Z"}

`failing_calls: [{"service": "autoscaling", "operation": "SetDesiredCapacity", "error": "Throttling", "times": 2}]`
fails the next calls, whoever makes them. `lost_events: [{"source": ["aws.ec2"]}]` are patterns of events that no rule
gets. With `nodes` the programs on nodes run: they complete their hooks, and log, with the role of the node.

Five switches choose between readings: `waits_for_in_service: true` lets CloudFormation wait for the nodes of a new
group, `writes_sizes_back: true` lets CloudFormation send the sizes of a node group with every update of it,
`patterns_as_published: true` keeps the patterns of the registry that no text matches, `enforces_permissions:
false` lets every role do everything, `block_event_names` is the edition of EC2's events.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .batch_state import outcomes_of
from .clock import parse_time
from .nodes import program_of
from .pcs import endpoints
from .reservations import seeded_reservation
from .world import Json, Resource, Type, World

_KEYS = {
    "batch_jobs",
    "reservations",
    "reservation_groups",
    "vpcs",
    "subnets",
    "security_groups",
    "placement_groups",
    "buckets",
    "certificates",
    "clusters",
    "now",
    "block_event_names",
    "enforces_permissions",
    "failing_calls",
    "lost_events",
    "nodes",
    "patterns_as_published",
    "pcs_clusters",
    "waits_for_in_service",
    "writes_sizes_back",
}


def plant(world: World, seed: Mapping[str, Any]) -> Json:
    """Put seeds into the world, beside those that are there; raises ValueError if a key is unknown."""
    unknown = seed.keys() - _KEYS
    if unknown:
        raise ValueError(f"unknown seeds: {', '.join(sorted(unknown))}; allowed: {', '.join(sorted(_KEYS))}")
    for document in seed.get("reservations", ()):
        reservation = seeded_reservation(document)
        world.seeded_reservations[reservation.id] = reservation
    for name, members in seed.get("reservation_groups", {}).items():
        world.seeded_reservation_groups[name] = tuple(members)
    world.seeded_vpcs |= set(seed.get("vpcs", ()))
    world.seeded_subnets |= seed.get("subnets", {})
    world.seeded_security_groups |= set(seed.get("security_groups", ()))
    world.seeded_placement_groups |= seed.get("placement_groups", {})
    world.seeded_buckets |= seed.get("buckets", {})
    world.seeded_certificates |= set(seed.get("certificates", ()))
    for key, seeded in (("clusters", seeded_cluster), ("pcs_clusters", seeded_pcs_cluster)):
        for name, document in seed.get(key, {}).items():
            world.add(seeded(world, name, document))
    delivered, warning = seed.get("block_event_names", world.block_event_names)
    world.block_event_names = (delivered, warning)
    if not seed.get("enforces_permissions", True):
        world.decide = None
    if "failing_calls" in seed:
        world.failing_calls = [dict(failure) for failure in seed["failing_calls"]]
    world.lost_events = seed.get("lost_events", world.lost_events)
    if "nodes" in seed:
        world.program = program_of(seed["nodes"])
    world.batch.outcomes |= {name: outcomes_of(attempts) for name, attempts in seed.get("batch_jobs", {}).items()}
    world.patterns_as_published = seed.get("patterns_as_published", world.patterns_as_published)
    world.writes_sizes_back = seed.get("writes_sizes_back", world.writes_sizes_back)
    world.waits_for_in_service = seed.get("waits_for_in_service", world.waits_for_in_service)
    if "now" in seed:
        world.clock.set(parse_time(seed["now"]))
    return {}


def seeded_cluster(world: World, name: str, document: Mapping[str, Any]) -> Resource:
    """An EKS cluster that no stack made: `version`, `security_group` (the cluster security group) and `subnets`."""
    return Resource(
        type=Type.CLUSTER,
        logical_id=name,
        physical_id=name,
        region=world.region,
        properties={
            "Name": name,
            "Version": document["version"],
            "RoleArn": f"arn:aws:iam::{world.account}:role/{name}",
            "ResourcesVpcConfig": {"SubnetIds": list(document["subnets"])},
            "AccessConfig": {"AuthenticationMode": "API"},
        },
        attributes={
            "Arn": world.arn("eks", f"cluster/{name}"),
            "Endpoint": f"https://{name}.eks.invalid",
            "CertificateAuthorityData": "",
            "ClusterSecurityGroupId": document["security_group"],
            "OpenIdConnectIssuerUrl": f"https://{name}.oidc.invalid",
        },
        answered_by="seed",
    )


def seeded_pcs_cluster(world: World, name: str, document: Mapping[str, Any]) -> Resource:
    """A cluster of AWS PCS that no stack made: `version`, `subnet`, `security_groups`; optional `size` and `status`."""
    identifier, now = world.new_id("pcs_", f"seeded {name}", 10), world.clock.now()
    networking = {"SubnetIds": [document["subnet"]], "SecurityGroupIds": list(document["security_groups"])}
    properties: Json = {
        "Name": name,
        "Size": document.get("size", "SMALL"),
        "Scheduler": {"Type": "SLURM", "Version": document["version"]},
        "Networking": networking,
    }
    return Resource(
        type=Type.PCS_CLUSTER,
        logical_id=name,
        physical_id=world.arn("pcs", f"cluster/{identifier}"),
        region=world.region,
        properties=properties,
        attributes={
            "Id": identifier,
            "Arn": world.arn("pcs", f"cluster/{identifier}"),
            "Endpoints": endpoints(identifier, properties),
        },
        settings={
            "Name": name,
            "CreatedAt": now,
            "ModifiedAt": now,
            "ReadyAt": now,
            "Status": document.get("status", "ACTIVE"),
        },
        answered_by="seed",
    )
