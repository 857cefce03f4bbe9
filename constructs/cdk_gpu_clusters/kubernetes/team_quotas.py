"""Teams that share a cluster: the devices that each may use, and what of CPU, memory and EFA goes with them.

Kueue admits a job by all resources of its pods. A quota here names devices; CPU, memory, huge pages and EFA interfaces
follow in proportion, so that a job of as many entire nodes or slices fits exactly.

Source: kubernetes-sigs/kueue v0.19.2, apis/kueue/v1beta2/clusterqueue_types.go (nominalQuota, borrowingLimit,
lendingLimit), pkg/webhooks/clusterqueue_webhook.go and common.go (what it refuses), and
pkg/cache/scheduler/resource_node.go (what a queue may borrow).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from cdk_gpu_clusters.errors import Finding, check, define_rule
from cdk_gpu_clusters.kubernetes.compute_domain import CHANNEL_RESOURCE, in_ultraservers
from cdk_gpu_clusters.kubernetes.gpu_pod import EFA_RESOURCE, HUGE_PAGES_RESOURCE, allocatable, device_part
from cdk_gpu_clusters.kubernetes.node_pool import NodePool
from cdk_gpu_clusters.kubernetes.objects import DEFAULT_NAMESPACE, check_name
from cdk_gpu_clusters.rules.mig import WHOLE_GPU_RESOURCE

_KUEUE = "kubernetes-sigs/kueue v0.19.2"

TEAM_NAMES = define_rule(
    "GPU-TEAM-001",
    "each team has a namespace of its own, which holds nothing else",
    source='Kubernetes documentation, "Namespaces": initial namespaces; the namespaces of the charts of this library',
)
TEAM_DEVICES = define_rule(
    "GPU-TEAM-002",
    "a quota of a team names a group of nodes and a device that its nodes have, and each once",
    source=f"{_KUEUE}, pkg/webhooks/clusterqueue_webhook.go: validateResourceGroups",
)
TEAM_TOTAL = define_rule(
    "GPU-TEAM-003",
    "the quotas of all teams together are no more than the nodes have",
    source=f"{_KUEUE}, apis/kueue/v1beta2/clusterqueue_types.go: the quotas of a cohort add up to what it can allocate",
)
TEAM_NUMBERS = define_rule(
    "GPU-TEAM-004",
    "quotas, limits and weights are not negative, and a team lends no more than its quota",
    source=f"{_KUEUE}, pkg/webhooks: validateResourceQuantity, validateLendingLimit, validateFairSharing",
)
TEAM_BORROWS = define_rule(
    "GPU-TEAM-005",
    "a team may borrow no more than the others lend",
    source=f"{_KUEUE}, pkg/cache/scheduler/resource_node.go: potentialAvailable",
)

#: Namespaces of Kubernetes, of charts of this library and of EKS's add-ons; tests hold it against all charts.
_RESERVED = frozenset(
    {
        DEFAULT_NAMESPACE,
        "agentgateway-system",
        "amazon-cloudwatch",
        "argo",
        "argo-rollouts",
        "dcgm-exporter",
        "external-dns",
        "gateway-api",
        "karpenter",
        "keda",
        "nvidia-device-plugin",
        "nvidia-dra-driver-gpu",
        "slinky",
        "slurm",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamQuota:
    """What a team may use of the devices of one group of nodes.

    Attributes:
        pool: Name of the group.
        resource: Name of the device in Kubernetes: `nvidia.com/gpu`, or a slice such as `nvidia.com/mig-1g.5gb`.
        nominal: Devices that are the team's whenever it wants them; it gets them back from those who borrowed them.
        borrowing_limit: Most devices over and above, of those that others leave idle. As many as they lend if left
            out; 0 for none.
        lending_limit: Most of its own idle devices that others may borrow. All of them if left out; 0 keeps them idle.
    """

    pool: str
    resource: str = WHOLE_GPU_RESOURCE
    nominal: int
    borrowing_limit: int | None = None
    lending_limit: int | None = None

    @property
    def lent(self) -> int:
        """Most devices that it lends."""
        return self.nominal if self.lending_limit is None else self.lending_limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Team:
    """A team: its namespace, its queue of Kueue, and what it may use.

    Attributes:
        name: Name of the namespace and of the ClusterQueue.
        quotas: What it may use, by group of nodes and device. It uses no other groups with devices.
        weight: Its share of idle devices of others, as a ratio to the weights of other teams; 0: last of all.

    Example:
        >>> Team(name="research", quotas=[TeamQuota(pool="trainers", nominal=64, borrowing_limit=32)]).group
        'gpu-team:research'
    """

    name: str
    quotas: Sequence[TeamQuota]
    weight: int = 1

    @property
    def group(self) -> str:
        """The Kubernetes group of its members, for the access entries of their IAM roles."""
        return f"gpu-team:{self.name}"


def check_teams(teams: Sequence[Team], pools: Sequence[NodePool], *, cluster_queue: str) -> list[Finding]:
    """Find teams that cannot be as they are described.

    Args:
        teams: The teams.
        pools: All groups of nodes of the cluster.
        cluster_queue: Name of the ClusterQueue of those outside of teams.

    Returns:
        Findings GPU-K8S-001, GPU-TEAM-001 to -005, each with a path such as `teams[0].quotas[1].nominal`.
    """
    known = {pool.name: pool for pool in pools}
    found = [
        one
        for index, team in enumerate(teams)
        for one in (*_check_name(index, team, teams, cluster_queue), *_check_weight(index, team))
    ]
    usable = []
    for index, team in enumerate(teams):
        for place, quota in enumerate(team.quotas):
            path = f"teams[{index}].quotas[{place}]"
            wrong = [*_check_device(path, team, quota, known), *_check_numbers(path, quota)]
            found += wrong
            if not wrong:
                usable.append((path, quota))
    # Sums are of quotas that are right by themselves: others would make faults of their own.
    return [*found, *_check_totals(usable, known), *_check_borrowing(usable, known)]


@check
def _check_name(index: int, team: Team, teams: Sequence[Team], cluster_queue: str) -> Iterator[Finding]:
    path = f"teams[{index}].name"
    yield from check_name(team.name, path=path)
    reserved = team.name in _RESERVED or team.name.startswith("kube-") or team.name.endswith("-system")
    twice = team.name in [one.name for one in teams[:index]]
    if reserved or twice or team.name == cluster_queue:
        yield TEAM_NAMES.finding(
            cause="another team has this name" if twice else "this name is taken by what is not of the team",
            got=team.name,
            allowed=f"another name than {cluster_queue}, {', '.join(sorted(_RESERVED))}, kube-… and …-system",
            fix="rename the team",
            path=path,
        )


@check
def _check_weight(index: int, team: Team) -> Iterator[Finding]:
    if team.weight < 0:
        yield TEAM_NUMBERS.finding(
            cause="Kueue takes no such weight",
            got=str(team.weight),
            allowed="0 or more",
            fix="give 1, or leave it out",
            path=f"teams[{index}].weight",
        )
    if not team.quotas:
        yield TEAM_DEVICES.finding(
            cause=f"no job of {team.name} would ever start",
            got="no quota",
            allowed="a quota or more; nominal 0 lets a team borrow",
            fix="give the team a quota",
            path=f"teams[{index}].quotas",
        )


@check
def _check_device(path: str, team: Team, quota: TeamQuota, known: Mapping[str, NodePool]) -> Iterator[Finding]:
    pool = known.get(quota.pool)
    if pool is None:
        yield TEAM_DEVICES.finding(
            cause=f"the queues have no group of nodes called {quota.pool}",
            got=quota.pool,
            allowed=", ".join(name for name, one in known.items() if one.resources) or "none: no group has devices",
            fix="name a group of the cluster",
            path=f"{path}.pool",
        )
    elif quota.resource not in pool.resources:
        yield TEAM_DEVICES.finding(
            cause=f"nodes of {pool.name} have no such device",
            got=quota.resource,
            allowed=", ".join(pool.resources) or "none: all teams share a group without devices, and need no quota",
            fix="name a device of the nodes",
            path=f"{path}.resource",
        )
    elif sum((one.pool, one.resource) == (quota.pool, quota.resource) for one in team.quotas) > 1:
        yield TEAM_DEVICES.finding(
            cause=f"{team.name} has several quotas of this device",
            got=f"{quota.resource} of {quota.pool} more than once",
            fix="make one quota of them",
            path=path,
        )


@check
def _check_numbers(path: str, quota: TeamQuota) -> Iterator[Finding]:
    numbers = {"nominal": quota.nominal, "borrowing_limit": quota.borrowing_limit, "lending_limit": quota.lending_limit}
    negative = {name: value for name, value in numbers.items() if value is not None and value < 0}
    for name, value in negative.items():
        yield TEAM_NUMBERS.finding(
            cause="this cannot be", got=str(value), allowed="0 or more", fix="correct it", path=f"{path}.{name}"
        )
    if not negative and quota.lent > quota.nominal:
        yield TEAM_NUMBERS.finding(
            cause="a team cannot lend what it does not have",
            got=str(quota.lent),
            allowed=f"0 to {quota.nominal}",
            fix="lower it, or leave it out to lend all that is idle",
            path=f"{path}.lending_limit",
        )


_Usable = Sequence[tuple[str, TeamQuota]]


@check
def _check_totals(usable: _Usable, known: Mapping[str, NodePool]) -> Iterator[Finding]:
    given: Counter[tuple[str, str]] = Counter()
    for path, quota in usable:
        key = quota.pool, quota.resource
        total, before = device_count(known[quota.pool], quota.resource), given[key]
        given[key] += quota.nominal
        if given[key] > total:
            yield TEAM_TOTAL.finding(
                cause=f"{quota.pool} has {total} of {quota.resource}, and teams before this one have {before}",
                got=str(quota.nominal),
                allowed=f"0 to {max(0, total - before)}",
                fix="lower the quotas of teams, or give the group more nodes",
                path=f"{path}.nominal",
            )


@check
def _check_borrowing(usable: _Usable, known: Mapping[str, NodePool]) -> Iterator[Finding]:
    every = [quota for _, quota in usable]
    for path, quota in usable:
        pool = known[quota.pool]
        most = most_borrowed(pool, quota, every)
        # Where teams have more than there is, that is the fault.
        if _outside(pool, quota, every) >= 0 and quota.borrowing_limit is not None and quota.borrowing_limit > most:
            yield TEAM_BORROWS.finding(
                cause=f"other teams, and nodes that are of no team, lend {most} of {quota.resource} of {quota.pool}",
                got=str(quota.borrowing_limit),
                allowed=f"0 to {most}",
                fix="lower it, or leave it out: then the team may borrow whatever others lend",
                path=f"{path}.borrowing_limit",
            )


def device_count(pool: NodePool, resource: str) -> int:
    """Devices of all nodes of a group."""
    return pool.resources.get(resource, 0) * pool.node_count


def most_borrowed(pool: NodePool, quota: TeamQuota, quotas: Iterable[TeamQuota]) -> int:
    """Devices that a team can borrow while all others are idle.

    Args:
        pool: Group of the nodes.
        quota: The quota of the team.
        quotas: Those of all teams, this one among them.
    """
    every = list(quotas)
    others = sum(one.lent for one in every if one is not quota and _is_same(one, quota))
    return _outside(pool, quota, every) + others


def _outside(pool: NodePool, quota: TeamQuota, quotas: Iterable[TeamQuota]) -> int:
    """Devices of no team; less than 0 where teams have more than there is."""
    return device_count(pool, quota.resource) - sum(one.nominal for one in quotas if _is_same(one, quota))


def _is_same(one: TeamQuota, other: TeamQuota) -> bool:
    return (one.pool, one.resource) == (other.pool, other.resource)


def most_devices(pool: NodePool, quota: TeamQuota, quotas: Iterable[TeamQuota]) -> int:
    """Devices that a team has while all others are idle; otherwise as `most_borrowed`."""
    lent = most_borrowed(pool, quota, quotas)
    return quota.nominal + (lent if quota.borrowing_limit is None else quota.borrowing_limit)


def shared_nodes(pool: NodePool, teams: Iterable[Team]) -> int:
    """Entire nodes that jobs of no team have while all teams are idle.

    Example:
        >>> from cdk_gpu_clusters.kubernetes.node_pool import node_pool
        >>> team = Team(name="research", quotas=[TeamQuota(pool="trainers", nominal=64, lending_limit=0)])
        >>> shared_nodes(node_pool("trainers", instance_type="p5.48xlarge", node_count=16), [team])
        8
    """
    quotas = [one for team in teams for one in team.quotas if one.pool == pool.name]
    kept = Counter[str]()
    for quota in quotas:
        kept[quota.resource] += quota.nominal - quota.lent
    free = [(device_count(pool, name) - kept[name]) // count for name, count in pool.resources.items()]
    return min(free, default=pool.node_count)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueQuota:
    """What a ClusterQueue has of one resource of one flavor: CPU in thousandths, memory and huge pages in MiB.

    Attributes:
        nominal: Its quota.
        borrowing_limit: Most that it borrows; None for no limit.
        lending_limit: Most that it lends; None for all.
    """

    nominal: int
    borrowing_limit: int | None = None
    lending_limit: int | None = None


def team_resources(team: Team, pool: NodePool) -> dict[str, QueueQuota]:
    """What a team has of a group of nodes, by the name of the resource.

    Limits of CPU, memory, huge pages and EFA interfaces are those that let all devices be used that the team may use.

    Args:
        team: A team without faults.
        pool: The group; none of its resources is the team's, nor can be borrowed, where it has no quota of them.

    Example:
        >>> from cdk_gpu_clusters.kubernetes.node_pool import node_pool
        >>> pool = node_pool("trainers", instance_type="p5.48xlarge", node_count=16)
        >>> team = Team(name="research", quotas=[TeamQuota(pool="trainers", nominal=64, borrowing_limit=8)])
        >>> team_resources(team, pool)["vpc.amazonaws.com/efa"]
        QueueQuota(nominal=256, borrowing_limit=32, lending_limit=None)
    """
    own = {one.resource: one for one in team.quotas if one.pool == pool.name}
    nominal = with_devices(pool, {name: one.nominal for name, one in own.items()})
    kept = with_devices(pool, {name: one.nominal - one.lent for name, one in own.items()})
    most = with_devices(pool, {name: one.nominal + (one.borrowing_limit or 0) for name, one in own.items()})
    borrows = any(one.borrowing_limit is None for one in own.values())
    lends = all(one.lending_limit is None for one in own.values())
    companions = {
        name: QueueQuota(
            nominal=number,
            borrowing_limit=None if borrows else most[name] - number,
            lending_limit=None if lends else number - kept[name],
        )
        for name, number in nominal.items()
        if name not in pool.resources
    }
    devices = {
        name: QueueQuota(
            nominal=own[name].nominal,
            borrowing_limit=own[name].borrowing_limit,
            lending_limit=own[name].lending_limit,
        )
        if name in own
        else QueueQuota(nominal=0, borrowing_limit=0)
        for name in pool.resources
    }
    return {**companions, **devices}


def with_devices(pool: NodePool, devices: Mapping[str, int]) -> dict[str, int]:
    """Devices of a group with their part of all other resources of its nodes, rounded down."""
    nodes = sum((device_part(pool, name) * number for name, number in devices.items()), Fraction(0))
    others = {name: number for name, number in node_quota(pool).items() if name not in pool.resources}
    return {**{name: int(number * nodes) for name, number in others.items()}, **devices}


def node_quota(pool: NodePool) -> dict[str, int]:
    """What one node adds to the quota: thousandths of a CPU, MiB of memory and huge pages, devices by number."""
    room = allocatable(pool)
    quota = {"cpu": room.cpu_millicores, "memory": room.memory_mib}
    if pool.efa_count:
        quota |= {HUGE_PAGES_RESOURCE: room.huge_pages_mib, EFA_RESOURCE: pool.efa_count}
    if in_ultraservers(pool):
        quota[CHANNEL_RESOURCE] = 1
    return {**quota, **pool.resources}
