"""Checks of a cluster of SageMaker HyperPod, and of fleets that are its instance groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches

from cdk_gpu_clusters.catalogue import instance_type
from cdk_gpu_clusters.catalogue.kubernetes import DEFAULT_KUBERNETES_VERSION
from cdk_gpu_clusters.errors import ConfigError, Finding, Severity
from cdk_gpu_clusters.fleet.instance_group import KNOWN_FAMILIES
from cdk_gpu_clusters.node.hyperpod_scripts import STATIC
from cdk_gpu_clusters.rules.hyperpod import (
    CAPACITY,
    TRAINING_PLAN_USER,
    check_accounting,
    check_eks_of_hyperpod,
    check_hyperpod_type,
    check_node_recovery,
    check_not_of_user,
    check_storage,
    check_tiered_checkpoints,
    ml_name,
)

from ._check_nodes import check_mount_points, mig_faults
from ._check_values import check_arn, check_store_name
from ._document import Fault, Key, faults_at
from ._parts import SpecParts
from ._rules import HYPERPOD_GROUPS, HYPERPOD_INFERENCE, HYPERPOD_SECTION, HYPERPOD_UNUSED
from .capacity import training_plan_of
from .data import FILE_SYSTEMS, CheckpointsSpec
from .eks import EksSpec
from .fleet import FleetSpec, ImageById
from .hyperpod import HyperPodLoginSpec, HyperPodSpec
from .planned_fleet import PlannedFleet, mount_kind

_KEY: Key = ("hyperpod",)
#: Groups that a Slurm cluster has beside the fleets.
_OF_SLURM = ("controller", "login")


def check_hyperpod(parts: SpecParts) -> list[Fault]:
    """Find a section without its orchestrator, and what SageMaker refuses of the cluster beside its fleets."""
    if not parts.profile.joins_hyperpod:
        return [] if parts.hyperpod is None else faults_at(_KEY, [_NOT_ON_HYPERPOD], at_key=True)
    faults = [fault for part in parts.fleets if not isinstance(part.spec, FleetSpec) for fault in _no_servers(part.key)]
    on_slurm = parts.profile.is_hyperpod_slurm
    if on_slurm:
        faults += [fault for part in parts.fleets if part.name in _OF_SLURM for fault in _taken(part.key)]
    if parts.hyperpod_is_broken:
        return faults
    spec = parts.hyperpod or HyperPodSpec()
    faults += faults_at((*_KEY, "node_recovery"), _plain(check_node_recovery(is_automatic=spec.node_recovery)))
    if (percent := spec.tiered_checkpoint_percent) is not None:
        about = check_tiered_checkpoints(percent, is_eks=not on_slurm)
        faults += faults_at((*_KEY, "tiered_checkpoint_percent"), _plain(about), at_key=on_slurm)
    names = [part.name for part in parts.fleets if isinstance(part.spec, FleetSpec)]
    for name in spec.groups:
        if name not in names:
            faults += faults_at((*_KEY, "groups", name), [_no_fleet(name, names)], at_key=True)
    return faults + list(_check_slurm(spec, parts) if on_slurm else _check_kubernetes(spec, parts))


_NOT_ON_HYPERPOD = HYPERPOD_SECTION.finding(
    cause="no cluster of HyperPod is made",
    got="hyperpod without orchestrator: hyperpod-slurm or hyperpod-eks",
    fix="write orchestrator: hyperpod-slurm or hyperpod-eks, or remove the section",
    severity=Severity.WARNING,
)


def _plain(findings: Iterable[Finding]) -> list[Finding]:
    """The findings without their paths, each with something to do."""
    return [replace(one, path="", fix=one.fix or f"write {one.allowed}") for one in findings]


def _no_servers(key: Key) -> list[Fault]:
    finding = HYPERPOD_INFERENCE.finding(
        cause="model servers are no part of a HyperPod cluster that is made here",
        got=f"the inference fleet {key[-1]}",
        allowed="training fleets",
        fix="put inference fleets into a cluster file of their own, with orchestrator ec2 or eks",
    )
    return faults_at(key, [finding], at_key=True)


def _taken(key: Key) -> list[Fault]:
    finding = HYPERPOD_GROUPS.finding(
        cause="a group of Slurm's own has this name", got=str(key[-1]), fix="rename the fleet"
    )
    return faults_at(key, [finding], at_key=True)


def _no_fleet(name: str, names: list[str]) -> Finding:
    near = get_close_matches(name, names, n=1)
    return HYPERPOD_GROUPS.finding(
        cause="there is no such training fleet",
        got=name,
        allowed=", ".join(names) or "a fleet of training",
        fix=f"write {near[0]}" if near else "name a fleet of training",
    )


# What only Amazon EKS has: its version, and software that HyperPod brings itself.

#: Keys of `eks` that HyperPod replaces: what it has in their place, and whether something would be missing.
_OF_EKS: Mapping[str, tuple[str, Severity]] = {
    "software": ("install HyperPod's Helm chart in place of software", Severity.WARNING),
    "kubectl": ("remove kubectl; the nodes start no script with it", Severity.WARNING),
    "teams": ("remove teams, and give them quotas in an app of your own: HyperPodTeamQuota", Severity.ERROR),
    "gateway": ("remove gateway, and serve models with orchestrator: eks", Severity.ERROR),
}
#: Keys of `hyperpod` that are for Slurm.
_OF_SLURM_ALONE = ("controller", "login", "accounting_database")


def _check_kubernetes(spec: HyperPodSpec, parts: SpecParts) -> Iterator[Fault]:
    for name in _OF_SLURM_ALONE:
        if getattr(spec, name) != HyperPodSpec.model_fields[name].get_default():
            finding = HYPERPOD_SECTION.finding(
                cause="only a cluster on Slurm has it",
                got=f"{name} with orchestrator: hyperpod-eks",
                fix=f"remove {name}, or write orchestrator: hyperpod-slurm",
                severity=Severity.WARNING,
            )
            yield from faults_at((*_KEY, name), [finding], at_key=True)
    if parts.eks_is_broken:
        return
    eks = parts.eks or EksSpec()
    for name, (fix, severity) in _OF_EKS.items():
        if getattr(eks, name) != EksSpec.model_fields[name].get_default():
            finding = HYPERPOD_UNUSED.finding(
                cause="HyperPod brings the software of its nodes, and quotas of its own",
                got=f"eks.{name}",
                allowed=f"no {name}",
                fix=fix,
                severity=severity,
            )
            yield from faults_at(("eks", name), [finding], at_key=True)
    version = eks.existing.kubernetes_version if eks.existing else eks.kubernetes_version or DEFAULT_KUBERNETES_VERSION
    place: Key = ("eks", "existing", "kubernetes_version") if eks.existing else ("eks", "kubernetes_version")
    about = check_eks_of_hyperpod(kubernetes_version=version, is_public=False)
    fix = "write one of these as kubernetes_version, or look the version up in the guide of HyperPod"
    yield from faults_at(place, [replace(one, path="", fix=fix) for one in about])


# What only Slurm has: controller, login nodes, accounting.


def _check_slurm(spec: HyperPodSpec, parts: SpecParts) -> Iterator[Fault]:
    yield from _check_type((*_KEY, "controller", "instance_type"), spec.controller.instance_type)
    if spec.login.nodes:
        yield from _check_type((*_KEY, "login", "instance_type"), spec.login.instance_type)
    yield from _check_login_mounts(spec.login, parts)
    database = spec.accounting_database
    if database is None:
        return
    about = check_accounting(is_eks=False, is_continuous=spec.continuous_provisioning)
    yield from faults_at((*_KEY, "continuous_provisioning"), _plain(about))
    if parts.region is not None:
        yield from check_arn((*_KEY, "accounting_database", "secret_arn"), database.secret_arn, parts.region, "secret")


def _check_type(key: Key, name: str) -> Iterator[Fault]:
    """Find a type that HyperPod does not have, or whose accelerators no job would use."""
    try:
        record = instance_type(name.removeprefix("ml."))
    except ConfigError as unknown:
        yield from faults_at(key, _plain(unknown.findings))
        return
    yield from faults_at(key, _plain(check_hyperpod_type(ml_name(name), families=KNOWN_FAMILIES)))
    if record.accelerator is not None:
        finding = HYPERPOD_GROUPS.finding(
            cause="no job runs on this node",
            got=f"{name}, with {record.accelerator.count} {record.accelerator.name}",
            allowed="a type without accelerators",
            fix="write instance_type: m7i.12xlarge; fleets hold the GPU nodes",
        )
        yield from faults_at(key, [finding])


def _check_login_mounts(login: HyperPodLoginSpec, parts: SpecParts) -> Iterator[Fault]:
    key: Key = (*_KEY, "login", "mounts")
    stores = parts.stores
    if stores is None:
        return
    yield from check_mount_points(key, login.mounts, stores)
    for point, name in login.mounts.items():
        yield from faults_at((*key, point), check_store_name(name, stores, FILE_SYSTEMS, "lustre"))
    kinds = {point: mount_kind(stores.get(name)) for point, name in login.mounts.items()}
    yield from _at_mounts(key, check_storage(kinds))


def _at_mounts(key: Key, findings: Iterable[Finding]) -> Iterator[Fault]:
    for finding in findings:
        point = finding.path.partition(".")[2]
        fix = finding.fix.replace("setup_script", "user_data")
        place = (*key, point) if point else key
        yield from faults_at(place, _plain([replace(finding, fix=fix)]), at_key=bool(point))


# One fleet.

#: Keys of a fleet -> the option of an instance group that there is not, and the fix in the words of the file.
_NOT_THERE: Mapping[str, tuple[str, str]] = {
    "image": ("image", "remove image, or write image: {id: ami-…} with a custom image that is made from HyperPod's"),
    "max_nodes": ("max_node_count", "write nodes: in place of min_nodes and max_nodes; the size of a group is fixed"),
    "placement": ("placement", "remove placement: SageMaker places the nodes"),
    "root_volume": ("root_volume", "remove root_volume; hyperpod.groups.{fleet}.volume_gib adds a second volume"),
    "scratch": ("scratch", "remove scratch: the image of HyperPod sets up the local disks"),
}
#: Keys of a fleet that nothing would read: why, what to do, and whether something would be missing.
_WITHOUT_EFFECT: Mapping[str, tuple[str, str, Severity]] = {
    "alarms": (
        "no alarms of this library watch the groups of HyperPod",
        "remove alarms, or set alarms on the events of HyperPod in Amazon EventBridge",
        Severity.WARNING,
    ),
    "evidence_bucket": (
        "nodes of HyperPod send no bundle of evidence",
        "remove evidence_bucket; events of the nodes are in the log groups of the cluster",
        Severity.ERROR,
    ),
    "fabric": (
        "all nodes of a HyperPod cluster share one security group",
        "remove fabric, or put the fleets into clusters of their own",
        Severity.WARNING,
    ),
    "fabric_manager_order": ("HyperPod splits the GPUs", "remove fabric_manager_order", Severity.WARNING),
    "metadata_users": (
        "every user of a HyperPod node reaches the instance metadata service, and so has the role of the node",
        "remove metadata_users",
        Severity.WARNING,
    ),
    "read_only_mounts": (
        "HyperPod mounts file systems to read and write",
        "remove read_only_mounts, and protect the directories by their permissions",
        Severity.ERROR,
    ),
    "update": (
        "SageMaker decides when nodes get a new image",
        "remove update, and run aws sagemaker update-cluster-software",
        Severity.WARNING,
    ),
}


def check_group_of(fleet: PlannedFleet) -> list[Fault]:
    """Find what an instance group of HyperPod cannot be, and a training plan on another orchestrator."""
    spec, key = fleet.spec, fleet.key
    if not fleet.profile.joins_hyperpod:
        plan = training_plan_of(spec.capacity)
        return [] if plan is None else faults_at((*key, "capacity"), [_plan_elsewhere(plan)])
    if not isinstance(spec, FleetSpec) or fleet.parts.hyperpod_is_broken:
        return []
    faults = [*_check_keys(fleet, spec)]
    for finding in fleet.instance_group.findings:
        faults += _placed(fleet, finding)
    if fleet.static_checkpoints is None and fleet.parts.stores is not None:
        faults += _check_names(fleet, spec)
    plan = training_plan_of(spec.capacity)
    if plan is not None and plan.startswith("arn:") and fleet.parts.region is not None:
        faults += check_arn((*key, "capacity", "training_plan"), plan, fleet.parts.region, "training plan")
    return faults


def _check_names(fleet: PlannedFleet, spec: FleetSpec) -> list[Fault]:
    """Find buckets for checkpoints whose names only the deployment makes."""
    store = (fleet.parts.stores or {}).get(str(spec.checkpoints))
    if not isinstance(store, CheckpointsSpec):  # something else is wrong with it
        return []
    options = store.checkpoints
    names = ["bucket_name"] if options.bucket_name is None else []
    names += ["express_base_name"] if options.express_zone_id and options.express_base_name is None else []
    finding = STATIC.finding(
        cause="the nodes of HyperPod get the names of the buckets through S3, before these are made",
        got=f"{spec.checkpoints} without {' and '.join(names)}",
        allowed="a store whose buckets have names in the file",
        fix=f"add {' and '.join(names)} to the store {spec.checkpoints}; another name replaces a bucket that is there",
    )
    return faults_at((*fleet.key, "checkpoints"), [finding])


def _plan_elsewhere(plan: str) -> Finding:
    return TRAINING_PLAN_USER.finding(
        cause="only SageMaker launches nodes from a training plan",
        got=plan,
        allowed="orchestrator: hyperpod-slurm, hyperpod-eks",
        fix="write orchestrator: hyperpod-slurm or hyperpod-eks, or buy a Capacity Block and write capacity_block",
    )


def _check_keys(fleet: PlannedFleet, spec: FleetSpec) -> Iterator[Fault]:
    given = spec.model_fields_set - {name.partition(".")[0] for name in fleet.broken}
    for name, (option, fix) in _NOT_THERE.items():
        if name not in given or (name == "image" and isinstance(spec.image, ImageById | None)):
            continue
        for finding in check_not_of_user([option]):
            in_words = replace(finding, cause=finding.cause.replace(option, name), got=name, path="")
            yield from faults_at((*fleet.key, name), [replace(in_words, fix=fix.replace("{fleet}", fleet.name))])
    for name, (cause, fix, severity) in _WITHOUT_EFFECT.items():
        if name not in given or getattr(spec, name) == FleetSpec.model_fields[name].get_default():
            continue
        if name == "alarms" and not spec.alarms.enabled:
            continue
        finding = HYPERPOD_UNUSED.finding(cause=cause, got=name, allowed=f"no {name}", fix=fix, severity=severity)
        yield from faults_at((*fleet.key, name), [finding])


_IN_GROUPS = {
    "deep_health_checks": "deep_health_checks",
    "least_node_count": "least_nodes",
    "partition": "partition",
    "image_release": "image_release",
    "volume_gib": "volume_gib",
}
_BUY = "buy a training plan (gpu-clusters capacity search --training-plans), and write capacity: {training_plan: arn:…}"


def _placed(fleet: PlannedFleet, finding: Finding) -> Iterator[Fault]:
    """A finding about an instance group at the key that it is about, in the words of the file."""
    key, path = fleet.key, finding.path
    if path == "mig":
        yield from mig_faults(fleet, [finding])
    elif path.partition(".")[0] == "mounts":
        yield from _at_mounts((*key, "mounts"), [finding])
    elif path in _IN_GROUPS:
        place: Key = ("hyperpod", "groups", fleet.name, _IN_GROUPS[path])
        fix = finding.fix.replace(path, _IN_GROUPS[path])
        yield from faults_at(place, _plain([replace(finding, fix=fix)]))
    elif path == "node_count":
        yield from faults_at((*key, "nodes"), _plain([finding]))
    elif path == "capacity" and finding.id == CAPACITY.id:
        fix = _BUY if fleet.plan.terms.kind.is_reserved else finding.fix.replace("node_count to 0", "nodes lower")
        allowed = "{training_plan: arn:…}, spot, on_demand"
        yield from faults_at((*key, "capacity"), [replace(finding, path="", allowed=allowed, fix=fix)])
    elif path in ("capacity", "instance_type", "interface_policy"):
        yield from faults_at((*key, path), _plain([finding]))
    else:
        place = ("network",) if path in ("security_groups", "vpc_subnets") else key
        yield from faults_at(place, _plain([finding]), at_key=place == key)
