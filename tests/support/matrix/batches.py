"""Combinations as synthesized templates: many in one app, and checked where they are made."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam

from cdk_gpu_clusters import (
    Capacity,
    CapacityReservation,
    ClusterPlacementGroup,
    EfaSecurityGroup,
    EksGpuNodeGroup,
    GpuFleet,
    GpuLaunchTemplate,
    MigLayout,
    NodeImage,
    PcsNodeGroup,
)
from cdk_gpu_clusters.errors import ConfigError
from cdk_gpu_clusters.template_rules.engine import not_compliant
from cdk_gpu_clusters.template_rules.rule import Outcome, Verdict
from matrix.axes import PLACEMENT_GROUP, Makes
from matrix.cloud import Cloud, Place
from matrix.combinations import SUBNET, ZONE, Combination
from matrix.invariant import violations
from matrix.kubernetes import Kubernetes, Shared
from matrix.nodes import Nodes
from matrix.outcome import outcome_of
from matrix.slurm import Slurm
from matrix.template_rules import ask_rules

#: Advice about profiles of MIG, whatever else is asked for.
_DISPUTED_NAMES = "GPU-MIG-007"
_CDK_JSON = Path(__file__).parents[3] / "cdk.json"

#: A stack holds 500 resources and its template 1 MB (AWS CloudFormation quotas): so many fit in any case.
PER_STACK = {Makes.FLEET: 12, Makes.NODE_GROUP: 12, Makes.COMPUTE_NODE_GROUP: 12, Makes.TEMPLATE: 60}


@dataclass(frozen=True, slots=True)
class Batch:
    """Accepted combinations for one app, and what is made of them."""

    combinations: tuple[Combination, ...]
    makes: Makes

    @property
    def stacks(self) -> list[Sequence[Combination]]:
        """The combinations by stack."""
        return list(_chunks(self.combinations, PER_STACK[self.makes]))


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one combination.

    Attributes:
        combination: The combination.
        violations: Each as the invariant's id and what is wrong.
        fired: Faults that the rules over templates find, and the construct did not say itself.
        undecidable: Why a rule over templates cannot tell, each time.
        verdicts: Number of their verdicts.
        digest: Digest of the launch template without the type's name, logical ids and its path; two combinations of
            one class
            have the same. Empty for a fleet or node group, whose user data counts the type's hardware.
        group: The compute node group of AWS PCS as JSON, to be held against the registry's schema; empty for others.
    """

    combination: Combination
    violations: tuple[str, ...]
    fired: tuple[str, ...]
    undecidable: tuple[str, ...]
    verdicts: int
    digest: str
    group: str = ""


def synthesize(batch: Batch) -> list[Result]:
    """Synthesize a batch in one app, and check each combination in the templates that come out."""
    with TemporaryDirectory() as directory:
        cloud = _synthesize(batch, directory)
    said: dict[Place, list[Verdict]] = {}
    for place, verdicts in ask_rules(cloud.templates).items():
        said.setdefault(_owner(place), []).extend(verdicts)
    return [
        _result(cloud, place, combination, batch.makes, said[_owner(place)])
        for place, combination in _places(batch, cloud)
    ]


def _owner(place: Place) -> Place:
    """The combination that a resource belongs to: the beginning of its logical id."""
    return Place(place.stack, place.logical_id[: len(name_of(0))])


def refusals(combinations: Sequence[Combination]) -> Iterator[tuple[Combination, set[str]]]:
    """The ids of the findings with which our constructs refuse each combination; none for one that they take."""
    with TemporaryDirectory() as directory:
        bench = Bench(new_app(directory), "Refused")
        for index, combination in enumerate(combinations):
            try:
                bench.make(combination, f"C{index}", combination.profile.makes)
            except ConfigError as refusal:
                yield combination, {finding.id for finding in refusal.findings}
            else:
                yield combination, set()


def templates_of(batch: Batch) -> Iterator[Nodes]:
    """The nodes of a batch, to look at in their templates."""
    with TemporaryDirectory() as directory:
        cloud = _synthesize(batch, directory)
    for place, combination in _places(batch, cloud):
        yield Nodes(cloud, place, combination.asked)


def new_app(directory: str) -> cdk.App:
    """An app as the CDK CLI would make it, with the flags of cdk.json."""
    context = json.loads(_CDK_JSON.read_text(encoding="utf-8"))["context"]
    return cdk.App(analytics_reporting=False, context=context, outdir=directory)


def _synthesize(batch: Batch, directory: str) -> Cloud:
    app = new_app(directory)
    cdk.Tags.of(app).add("team", "matrix")
    kubernetes = Kubernetes(app) if batch.makes is Makes.NODE_GROUP else None
    for number, chunk in enumerate(batch.stacks):
        # Every second stack joins the cluster of the app, the others an existing one.
        bench = Bench(app, f"Stack{number}", kubernetes if number % 2 else None)
        for index, combination in enumerate(chunk):
            bench.make(combination, name_of(index), batch.makes)
    told = {finding.id for each in batch.combinations for finding in outcome_of(each).findings}
    _acknowledge(app, told | ({_DISPUTED_NAMES} if batch.makes is Makes.COMPUTE_NODE_GROUP else set()))
    app.synth()
    return Cloud.read(directory)


def _acknowledge(app: cdk.App, rule_ids: set[str]) -> None:
    """Advice about a combination would be printed at each synthesis."""
    for rule_id in sorted(rule_ids):
        cdk.Annotations.of(app).acknowledge_warning(f"cdk_gpu_clusters:{rule_id}")


def name_of(index: int) -> str:
    """Construct id of a combination in its stack, and so the beginning of its logical ids."""
    return f"C{index:03}"


def _places(batch: Batch, cloud: Cloud) -> Iterator[tuple[Place, Combination]]:
    templates = cloud.of_type("AWS::EC2::LaunchTemplate")
    by_name = {_owner(place): place for place in templates}
    for number, chunk in enumerate(batch.stacks):
        for index, combination in enumerate(chunk):
            yield by_name[Place(f"Stack{number}", name_of(index))], combination


def _result(cloud: Cloud, place: Place, combination: Combination, makes: Makes, verdicts: Sequence[Verdict]) -> Result:
    nodes = Nodes(cloud, place, combination.asked)
    told = {finding.id for finding in outcome_of(combination).findings}
    return Result(
        combination,
        violations=tuple(f"{each.id}: {each.what}" for each in violations(nodes)),
        fired=tuple(
            f"{verdict.rule.id}: {verdict.message}"
            for verdict in not_compliant(verdicts)
            if verdict.rule.id not in told
        ),
        undecidable=tuple(verdict.reason for verdict in verdicts if verdict.outcome is Outcome.UNDECIDABLE),
        verdicts=len(verdicts),
        digest=_digest(nodes) if makes is Makes.TEMPLATE else "",
        group="" if nodes.compute_node_group is None else json.dumps(nodes.compute_node_group),
    )


def _digest(nodes: Nodes) -> str:
    data = {key: value for key, value in nodes.data.items() if key != "InstanceType"}
    text = re.sub(r'"(Stack\d+/)?C\d{3}[\w/]*"', '"own"', json.dumps(data, sort_keys=True))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Bench:
    """A stack in an existing network, with what its launch templates share."""

    def __init__(self, app: cdk.App, name: str, kubernetes: Kubernetes | None = None) -> None:
        self._kubernetes = kubernetes
        self.stack = cdk.Stack(app, name, suppress_template_indentation=True)
        self.vpc = ec2.Vpc.from_vpc_attributes(
            self.stack,
            "Vpc",
            vpc_id="vpc-0123456789abcdef0",
            availability_zones=[ZONE],
            private_subnet_ids=[SUBNET],
            private_subnet_route_table_ids=["rtb-0123456789abcdef0"],
        )
        self._shared: tuple[EfaSecurityGroup, ec2.SecurityGroup, iam.IInstanceProfile] | None = None
        self._shared_by_groups: Shared | None = None
        self._slurm: Slurm | None = None

    def make(self, combination: Combination, name: str, makes: Makes) -> None:
        """Make the fleet, the node group or the launch template of a combination."""
        match makes:
            case Makes.FLEET:
                self._fleet(combination, name)
            case Makes.NODE_GROUP:
                self._node_group(combination, name)
            case Makes.COMPUTE_NODE_GROUP:
                self._compute_node_group(combination, name)
            case Makes.TEMPLATE:
                self._template(combination, name)

    def _fleet(self, combination: Combination, name: str) -> None:
        GpuFleet(
            self.stack,
            name,
            vpc=self.vpc,
            instance_type=combination.instance_type,
            node_count=combination.nodes,
            capacity=self._capacity(combination, name),
            efa=combination.efa,
            interface_policy=combination.policy,
            image=_image(combination),
        )

    def _node_group(self, combination: Combination, name: str) -> None:
        if self._shared_by_groups is None:
            self._shared_by_groups = Shared(self.stack, self.vpc, self._kubernetes)
        shared = self._shared_by_groups
        plan = outcome_of(combination).interfaces
        EksGpuNodeGroup(
            self.stack,
            name,
            cluster=shared.cluster,
            instance_type=combination.instance_type,
            node_count=combination.nodes,
            capacity=self._capacity(combination, name),
            efa=combination.efa,
            interface_policy=combination.policy,
            fabric=shared.fabric_of(combination.instance_type) if plan is not None and plan.efa_count else None,
            role=shared.role,
            alarms=None,
        )

    def _compute_node_group(self, combination: Combination, name: str) -> None:
        if self._slurm is None:
            self._slurm = Slurm(self.stack, self.vpc)
        plan = outcome_of(combination).interfaces
        elastic = combination.is_elastic
        PcsNodeGroup(
            self.stack,
            name,
            cluster=self._slurm.cluster,
            instance_type=combination.instance_type,
            node_count=None if elastic else combination.nodes,
            min_node_count=0 if elastic else None,
            max_node_count=combination.nodes if elastic else None,
            capacity=self._capacity(combination, name),
            efa=combination.efa,
            interface_policy=combination.policy,
            mig=None if combination.slices is None else MigLayout(combination.slices),
            fabric=self._slurm.fabric_of(combination.instance_type) if plan is not None and plan.efa_count else None,
            role=self._slurm.role,
            alarms=None,
        )

    def _template(self, combination: Combination, name: str) -> None:
        plan = outcome_of(combination).interfaces
        fabric, host, profile = self._common()
        GpuLaunchTemplate(
            self.stack,
            name,
            instance_type=combination.instance_type,
            capacity=self._capacity(combination, name),
            orchestrator=combination.profile.orchestrator,
            interface_policy=combination.policy,
            efa=combination.efa,
            fabric=fabric if plan is not None and plan.efa_count else None,
            security_groups=[host],
            instance_profile=profile,
            image=_image(combination),
        )

    def _common(self) -> tuple[EfaSecurityGroup, ec2.SecurityGroup, iam.IInstanceProfile]:
        if self._shared is None:
            profile = iam.InstanceProfile.from_instance_profile_arn(
                self.stack, "Profile", "arn:aws:iam::111122223333:instance-profile/nodes"
            )
            fabric = EfaSecurityGroup(self.stack, "Fabric", vpc=self.vpc)
            self._shared = (fabric, ec2.SecurityGroup(self.stack, "Host", vpc=self.vpc), profile)
        return self._shared

    def _capacity(self, combination: Combination, name: str) -> Capacity:
        asked = combination.asked.purchase
        group: ec2.IPlacementGroup | None = None
        if asked.is_in_group and asked.is_made_here:
            group = ClusterPlacementGroup(self.stack, f"{name}Group")
        elif asked.is_in_group:
            group = ec2.PlacementGroup.from_placement_group_name(self.stack, f"{name}Group", PLACEMENT_GROUP)
        if asked.kind == "on-demand":
            return Capacity.on_demand(uses_open_reservations=asked.uses_open)
        if asked.kind == "spot":
            return Capacity.spot(max_price_usd_per_hour=asked.max_price)
        if asked.is_made_here:
            reservation = CapacityReservation(
                self.stack,
                f"{name}Reservation",
                instance_type=combination.instance_type,
                instance_count=combination.nodes,
                availability_zone=ZONE,
                unlimited=True,
                unused_alarm=False,
                placement_group=group,
            )
            return Capacity.reservation(reservation)
        return _existing(combination, group)


def _existing(combination: Combination, group: ec2.IPlacementGroup | None) -> Capacity:
    asked = combination.asked.purchase
    target = asked.target or ""
    if asked.ends_at is None:
        by_arn = target.startswith("arn:")
        make = Capacity.from_reservation_group_arn if by_arn else Capacity.from_reservation_id
        return make(target, placement_group=group)
    if asked.kind == "capacity-block":
        return Capacity.capacity_block(target, starts_at=asked.starts_at, ends_at=asked.ends_at)
    return Capacity.ultraserver_block(
        target, reservation_id=asked.block_id, starts_at=asked.starts_at, ends_at=asked.ends_at
    )


def _image(combination: Combination) -> NodeImage | None:
    image = combination.image
    if image.image_id is not None:
        return NodeImage.from_id(image.image_id, operating_system=image.system or "al2023")
    return None if image.system is None else NodeImage.latest(image.system)


def batches(combinations: Sequence[Combination], makes: Makes, *, size: int) -> list[Batch]:
    """Combinations in apps of a size."""
    return [Batch(tuple(chunk), makes) for chunk in _chunks(combinations, size)]


def _chunks(combinations: Sequence[Combination], size: int) -> Iterator[Sequence[Combination]]:
    return (combinations[start : start + size] for start in range(0, len(combinations), size))
