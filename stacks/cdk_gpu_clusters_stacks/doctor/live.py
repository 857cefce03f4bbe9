"""Read an account for the stacks of a cluster file and what they made. All calls only read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from cdk_gpu_clusters_stacks.failures.calls import LOG_EVENTS, STACK_RESOURCES
from cdk_gpu_clusters_stacks.preflight.account import Account, Answer
from cdk_gpu_clusters_stacks.preflight.call import (
    CALLER,
    INSTANCES,
    SECURITY_GROUP_RULES,
    STACKS,
    Absent,
    Call,
    define_call,
)
from cdk_gpu_clusters_stacks.preflight.check import policy_of
from cdk_gpu_clusters_stacks.preflight.cluster import Cluster
from cdk_gpu_clusters_stacks.preflight.run import caller_of
from cdk_gpu_clusters_stacks.preflight.unread import Missed, Unread
from cdk_gpu_clusters_stacks.spec import ClusterSpec

from .mapping import (
    BY_TYPE,
    HOOK_MEMBERS,
    HOOKS,
    KINDS,
    RULE_TYPES,
    SECURITY_GROUP,
    TEMPLATES,
    Json,
    Kind,
    described,
    inside,
)
from .nodes import READING, NodePlan, NodeReader, Nodes, plan_of
from .planned import Resolver, Stack, Unknown

TEMPLATE = define_call("cloudformation", "get_template")
_ALWAYS = (CALLER, STACKS, TEMPLATE, STACK_RESOURCES, SECURITY_GROUP_RULES, HOOKS, INSTANCES, LOG_EVENTS)

_GROUP, _LAUNCH_TEMPLATE = "AWS::AutoScaling::AutoScalingGroup", "AWS::EC2::LaunchTemplate"
#: Types with a launch template, the path to it, and the members that name it and its version.
_USERS: Mapping[str, tuple[str, str, str]] = {
    _GROUP: ("LaunchTemplate", "LaunchTemplateId", "Version"),
    "AWS::Batch::ComputeEnvironment": ("computeResources.launchTemplate", "launchTemplateId", "version"),
    "AWS::EKS::Nodegroup": ("launchTemplate", "id", "version"),
    "AWS::PCS::ComputeNodeGroup": ("customLaunchTemplate", "id", "version"),
}
_RULES = (SECURITY_GROUP, *(f"AWS::EC2::{name}" for name in RULE_TYPES))


def policy_to_examine(spec: ClusterSpec) -> dict[str, Any]:
    """The smallest IAM policy with which everything about a cluster file is read. All actions only read."""
    plan = Cluster.of(spec).plan
    services = {
        "eks": plan.kubernetes,
        "pcs": plan.slurm,
        "batch": any(fleet.compute_environment for fleet in plan.fleets),
    }
    calls = (kind.call for kind in KINDS if services.get(kind.call.service, True))
    return policy_of((*_ALWAYS, *calls), "GpuClustersDoctor")


@dataclass(slots=True, kw_only=True)
class Live:
    """What an account has of a cluster.

    Attributes:
        account: The account.
        stacks: Deployed stacks by name.
        absent: Stacks that are not deployed.
        resources: Described properties by stack and logical id; None for a resource that is gone.
        documents: The descriptions themselves, for what no property has.
        latest: Content of the latest version of launch templates, where it is not the one in use.
        old_nodes: Contents of the versions that nodes run, by the Auto Scaling group, each with its nodes.
        rules: Described rules by security group.
        nodes: Nodes in service and their facts, by group.
        unread: What could not be read.
    """

    account: str
    stacks: dict[str, Stack] = field(default_factory=dict)
    absent: list[str] = field(default_factory=list)
    resources: dict[tuple[str, str], Json | None] = field(default_factory=dict)
    documents: dict[tuple[str, str], Json] = field(default_factory=dict)
    latest: dict[tuple[str, str], tuple[str, Json]] = field(default_factory=dict)
    old_nodes: list[tuple[tuple[str, str], str, str, Json, int]] = field(default_factory=list)
    rules: dict[str, list[Json]] = field(default_factory=dict)
    nodes: list[Nodes] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)


def read_live(spec: ClusterSpec, account: Account, *, now: datetime) -> Live:
    """Read the stacks of a cluster file, and every resource in them that is compared.

    Args:
        spec: The cluster file.
        account: The account.
        now: The time.

    Raises:
        Unusable: If the credentials cannot be used.
    """
    cluster = Cluster.of(spec)
    account_id, _ = caller_of(account)
    live = Live(account=account_id)
    reader = _Reader(cluster, account, live)
    reader.read_stacks()
    reader.read_resources()
    reader.read_launch_templates()
    reader.read_rules()
    reader.read_nodes(now)
    reader.miss_nodes_elsewhere()
    return live


class _Reader:
    """Asks, and keeps answers and what has none."""

    def __init__(self, cluster: Cluster, account: Account, live: Live) -> None:
        self._cluster, self._account, self._live = cluster, account, live
        self._missed = Missed(unread=live.unread, absent=live.absent)

    def read_stacks(self) -> None:
        calls = (STACKS, TEMPLATE, STACK_RESOURCES)
        asked = [
            (stack, [(call, self._account.start(call, StackName=stack.name)) for call in calls])
            for stack in self._cluster.plan.stacks
        ]
        for planned, futures in asked:
            name, about = planned.name, self._cluster.about(planned.kind, planned.of)
            taken = [self._missed.take(call, about, future, absent=name) for call, future in futures]
            answers = [answer for answer in taken if answer is not None]
            with self._missed.reading(STACKS, about):
                if len(answers) == len(calls):
                    self._live.stacks[name] = _stack(name, about, *answers)

    def read_resources(self) -> None:
        waiting = [
            (stack, logical_id, kind, self._account.start(kind.call, **kind.parameters(physical_id)))
            for stack in self._live.stacks.values()
            for logical_id, resource in stack.resources(*BY_TYPE)
            if (kind := BY_TYPE[resource["Type"]]).type != _LAUNCH_TEMPLATE
            and (physical_id := stack.physical_ids[logical_id])
        ]
        for stack, logical_id, kind, future in waiting:
            self._read(kind, (stack.name, logical_id), future)

    def _read(self, kind: Kind, key: tuple[str, str], future: Future[Answer]) -> None:
        """Keep a described resource, or that it is gone; without an answer nothing is known of it."""
        stack = self._live.stacks[key[0]]
        if isinstance(future.exception(), Absent):
            self._live.resources[key] = None
            return
        answer = self._missed.take(kind.call, stack.about, future)
        if answer is None:
            return
        with self._missed.reading(kind.call, stack.about):
            document = described(kind, answer)
            properties = None if document is None else kind.properties(document)
            if document is not None and kind.type == "AWS::EKS::Cluster":
                group = document.get("resourcesVpcConfig", {}).get("clusterSecurityGroupId")
                stack.attributes |= {(key[1], "ClusterSecurityGroupId"): group} if group else {}
            if properties is not None and kind.type == _GROUP:
                properties |= self._hooks(stack, stack.physical_ids[key[1]])
            self._live.resources[key] = properties
            if document is not None:
                self._live.documents[key] = document

    def _hooks(self, stack: Stack, group: str) -> dict[str, Any]:
        """The lifecycle hooks of a group, as its property has them."""
        answer = self._ask(HOOKS, stack.about, AutoScalingGroupName=group)
        if answer is None:
            return {}
        hooks = [{name: hook[name] for name in HOOK_MEMBERS if name in hook} for hook in answer["LifecycleHooks"]]
        return {"LifecycleHookSpecificationList": hooks}

    def read_launch_templates(self) -> None:
        """The version of each launch template that is in use, the latest one, and those that nodes still run."""
        users = {template: (key, version) for key, template, version in self._users()}
        for stack in self._live.stacks.values():
            for logical_id, _ in stack.resources(_LAUNCH_TEMPLATE):
                template, key = stack.physical_ids[logical_id], (stack.name, logical_id)
                user, used = users.get(template, (None, "$Latest"))
                asked = self._account.start(TEMPLATES, LaunchTemplateId=template, Versions=[used])
                self._read(BY_TYPE[_LAUNCH_TEMPLATE], key, asked)
                if user is not None and self._live.resources.get(key):
                    self._read_other_versions(key, template, used, user)

    def _users(self) -> Iterator[tuple[tuple[str, str], str, str]]:
        """The resources with a launch template, its id, and the version."""
        for key, document in self._live.documents.items():
            kind = self._live.stacks[key[0]].template["Resources"][key[1]]["Type"]
            if kind in _USERS:
                member, name, version = _USERS[kind]
                # A group on a block and on its own reservations has it there (DescribeAutoScalingGroups).
                mixed = (document.get("MixedInstancesPolicy") or {}).get("LaunchTemplate") or {}
                named = inside(document, member) or mixed.get("LaunchTemplateSpecification") or {}
                if named.get(name):
                    yield key, named[name], str(named.get(version) or "$Default")

    def _read_other_versions(self, key: tuple[str, str], template: str, used: str, user: tuple[str, str]) -> None:
        about = self._live.stacks[key[0]].about
        instances = self._live.documents[user].get("Instances") or []
        run = [str((one.get("LaunchTemplate") or {}).get("Version", "")) for one in instances]
        mine = [(one.get("LaunchTemplate") or {}).get("LaunchTemplateId") for one in instances]
        versions = {version for version, owner in zip(run, mine, strict=True) if owner == template and version}
        for version in ("$Latest", *sorted(versions - {used})):
            answer = self._ask(TEMPLATES, about, LaunchTemplateId=template, Versions=[version])
            document = None if answer is None else described(BY_TYPE[_LAUNCH_TEMPLATE], answer)
            if document is None:
                continue
            content, number = BY_TYPE[_LAUNCH_TEMPLATE].properties(document), str(document.get("VersionNumber"))
            if version != "$Latest":
                self._live.old_nodes.append((user, key[1], number, content, run.count(version)))
            elif number != str(self._live.documents[key].get("VersionNumber")):
                self._live.latest[key] = (number, content)

    def read_rules(self) -> None:
        """The rules of every security group that a stack makes, or adds a rule to."""
        for stack in self._live.stacks.values():
            resolver = Resolver(stack, self._live.stacks, region=self._account.region, account=self._live.account)
            for logical_id, resource in stack.resources(*_RULES):
                group = stack.physical_ids[logical_id]
                if resource["Type"] != _RULES[0]:
                    try:
                        group = str(resolver.value(resource["Properties"]["GroupId"]))
                    except Unknown:
                        continue
                if group not in self._live.rules:
                    filters = [{"Name": "group-id", "Values": [group]}]
                    answer = self._ask(SECURITY_GROUP_RULES, stack.about, Filters=filters)
                    if answer is not None:
                        self._live.rules[group] = list(answer.get("SecurityGroupRules", ()))

    def read_nodes(self, now: datetime) -> None:
        """The nodes of each group whose launch template is one of its stack, with their facts."""
        live, reader = self._live, NodeReader(self._account, self._missed, now=now)
        for key, launch_template, _ in self._users():
            stack = live.stacks[key[0]]
            for logical_id, resource in stack.resources(_LAUNCH_TEMPLATE):
                plan = self._plan(stack, resource) if stack.physical_ids[logical_id] == launch_template else None
                if plan is not None:
                    others = frozenset(self._other_versions(key, logical_id, plan))
                    nodes = Nodes(stack=stack, logical_id=key[1], plan=plan, other_versions=others)
                    reader.read(nodes, stack.template["Resources"][key[1]]["Type"], live.documents[key])
                    live.nodes.append(nodes)

    def miss_nodes_elsewhere(self) -> None:
        """Note nodes that no group of the stacks has: what they are now is unknown."""
        plan = self._cluster.plan
        services = {
            "hyperpod": (plan.hyperpod, "SageMaker HyperPod launches the nodes in an account of its own"),
            "parallelcluster": (plan.parallelcluster, "pcluster makes the nodes in a stack of its own"),
        }
        for about, (made, cause) in services.items():
            if made is not None:
                fix = "see their states with gpu-clusters status, and check a node in a session on it"
                self._missed.add(Unread(call=READING, about=about, cause=cause, fix=fix))

    def _plan(self, stack: Stack, launch_template: Json) -> NodePlan | None:
        """What a launch template has of its nodes; None if it is unknown, or not of this library."""
        resolver = Resolver(stack, self._live.stacks, region=self._account.region, account=self._live.account)
        data = (launch_template.get("Properties") or {}).get("LaunchTemplateData") or {}
        try:
            return plan_of(str(resolver.value(data.get("UserData", ""))))
        except Unknown:
            return None  # listed with what cannot be compared

    def _other_versions(self, group: tuple[str, str], template: str, plan: NodePlan) -> Iterator[str]:
        """Versions of a launch template, of those that nodes of a group run, with other settings than the plan has."""
        live, key = self._live, (group[0], template)
        run = [(number, content) for user, _, number, content, _ in live.old_nodes if user == group]
        used = str(live.documents.get(key, {}).get("VersionNumber", ""))
        for number, content in [(used, live.resources.get(key)), *run]:
            if content and plan_of(str(content["LaunchTemplateData"].get("UserData", ""))) != plan:
                yield number

    def _ask(self, call: Call, about: str, **parameters: Any) -> Answer | None:
        return self._missed.take(call, about, self._account.start(call, **parameters))


def _stack(name: str, about: str, stacks: Answer, template: Answer, resources: Answer) -> Stack:
    found = stacks["Stacks"][0]
    return Stack(
        name=name,
        about=about,
        template=_template(template["TemplateBody"]),
        parameters={
            one["ParameterKey"]: one.get("ResolvedValue") or one.get("ParameterValue", "")
            for one in found.get("Parameters", ())
            if one.get("ParameterValue") != "****"  # CloudFormation API reference, Parameter: NoEcho
        },
        outputs={one["OutputKey"]: one["OutputValue"] for one in found.get("Outputs", ())},
        physical_ids={
            one["LogicalResourceId"]: one["PhysicalResourceId"]
            for one in resources.get("StackResourceSummaries", ())
            if one.get("PhysicalResourceId") and not one.get("ResourceStatus", "").startswith("DELETE_")
        },
    )


def _template(body: Any) -> Json:
    """A template as botocore answers it: parsed where it is JSON, otherwise a text of YAML."""
    if isinstance(body, Mapping):
        return body
    from cdk_gpu_clusters.template_rules.template import read_text

    read: Json = read_text(str(body)).data
    return read
