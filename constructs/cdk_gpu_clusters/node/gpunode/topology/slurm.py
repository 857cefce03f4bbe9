"""EC2's network as a tree of switches for Slurm: topology.conf(5), for `TopologyPlugin=topology/tree`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def topology_conf(layers: Mapping[str, Sequence[str]]) -> str:
    """The text of topology.conf: a switch for each network node, and one above all of them.

    Network nodes of EC2 are layers of switches, the first at the top; instances below the same last one are the
    nearest (AWS EC2 user guide, "Amazon EC2 instance topology"; EC2 API reference, DescribeInstanceTopology). Some
    types have four layers and others three, so that a network node can have both instances and further ones below it.
    Slurm's switches have either ("has already been defined", SchedMD/slurm, src/plugins/topology/tree/
    switch_record.c): such instances get a switch of their own.

    Args:
        layers: Name of each node to its network nodes, from the top. A node without any is below the top switch only.

    Example:
        >>> print(topology_conf({"gpu-1": ("nn-a", "nn-b"), "gpu-2": ("nn-a", "nn-c")}), end="")
        SwitchName=nn-b Nodes=gpu-1
        SwitchName=nn-c Nodes=gpu-2
        SwitchName=nn-a Switches=nn-b,nn-c
    """
    below: dict[str, list[str]] = {}
    leaves: dict[str, list[str]] = {}
    tops: list[str] = []
    for name, path in layers.items():
        switches = list(path) or ["no-network-node"]
        leaves.setdefault(switches[-1], []).append(name)
        tops.append(switches[0])
        for upper, lower in zip(switches, switches[1:]):
            if lower not in below.setdefault(upper, []):
                below[upper].append(lower)
    for switch in [one for one in leaves if one in below]:
        leaves[f"{switch}-nodes"] = leaves.pop(switch)
        below[switch].append(f"{switch}-nodes")
    lines = [f"SwitchName={switch} Nodes={','.join(names)}" for switch, names in leaves.items()]
    # From the bottom: slurmctld reads a switch before the one that has it, in any order, but people read it so.
    lines += [f"SwitchName={switch} Switches={','.join(names)}" for switch, names in reversed(list(below.items()))]
    roots = list(dict.fromkeys(tops))
    if len(roots) > 1:
        lines.append(f"SwitchName=network Switches={','.join(roots)}")
    return "".join(f"{line}\n" for line in lines)
