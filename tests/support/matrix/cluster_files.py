"""Cluster files that Hypothesis writes: mostly sound ones, small first, so that a fault shrinks to the shortest file."""

from __future__ import annotations

from dataclasses import dataclass
from io import StringIO
from typing import Any

from hypothesis import strategies as st
from ruamel.yaml import YAML

from matrix.cluster_fleets import SCRIPT, inference_fleets, training_fleets

Data = dict[str, Any]

_SHEBANG = "#!/bin/sh\n"
#: Region and zones, by name and by id; P6e-GB200 stands in the Local Zone alone.
_PLACES = (
    ("us-east-1", "us-east-1a", "us-east-1b"),
    ("us-east-1", "use1-az4", "use1-az6"),
    ("us-west-2", "us-west-2b", "us-west-2c"),
    ("us-east-1", "us-east-1-dfw-2a", "us-east-1-dfw-2b"),
)
_SUBNETS = [f"subnet-0123456789abcdef{digit}" for digit in range(4)]
_LUSTRE_SIZES = ((1200, 125), (4800, 250), (38_400, 250))
_WORDS = st.text("abcxyz019-_./ ", max_size=12)
_TAGS = st.dictionaries(st.sampled_from(["team", "cost-center", "stage"]), _WORDS, max_size=2)


@dataclass(frozen=True, slots=True)
class ClusterFile:
    """A cluster file as data, with the length of the script that it may name; shown as the text to try again."""

    data: Data
    script_bytes: int = 20

    @property
    def script(self) -> str:
        """The script: its first line, and a comment of the rest."""
        return _SHEBANG + "#" * (self.script_bytes - len(_SHEBANG) - 1) + "\n"

    @property
    def text(self) -> str:
        """The file as a user would write it."""
        out = StringIO()
        yaml = YAML()
        yaml.default_flow_style = None
        yaml.width = 110
        yaml.dump(self.data, out)
        return out.getvalue()

    def __repr__(self) -> str:
        return f"ClusterFile, with {SCRIPT} of {self.script_bytes} bytes:\n{self.text}"


@st.composite
def cluster_files(draw: st.DrawFn) -> ClusterFile:
    """Cluster files of one to three training fleets, and now and then an inference fleet, or a Slurm cluster."""
    region, zone, other_zone = draw(st.sampled_from(_PLACES))
    stores = draw(_stores())
    names = draw(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3, unique=True))
    fleets = training_fleets(region, zone, sorted(stores))
    cluster: Data = {
        "version": 1,
        "name": "lab",
        "region": region,
        "network": draw(_networks(zone, other_zone)),
        "training": {"fleets": {name: draw(fleets) for name in names}},
    }
    if draw(st.integers(0, 3)) == 3 and "public" not in cluster["network"]:
        cluster["inference"] = {"fleets": {"d": draw(inference_fleets(region, zone, sorted(stores)))}}
    elif draw(st.integers(0, 3)) == 3:
        # Fleets are named too shortly for a queue of each, and a group that scales begins at 0: mostly known to be so.
        for fleet in cluster["training"]["fleets"].values():
            fleet.update({"min_nodes": 0} if "min_nodes" in fleet else {})
        queues = {"work": {"fleets": list(names)}}
        cluster |= {"orchestrator": "pcs", "pcs": {"size": "large", "login": {"nodes": 0}, "queues": queues}}
    tags = draw(_TAGS)
    cluster |= {"tags": tags} if tags else {}
    cluster |= {"data": stores} if stores else {}
    return ClusterFile(cluster, draw(st.integers(20, 6_000) | st.integers(20, 16_000)))


def _networks(zone: str, other_zone: str) -> st.SearchStrategy[Data]:
    here = {"availability_zone": st.just(zone)}
    made = st.fixed_dictionaries(
        here, optional={"egress": st.sampled_from(["nat", "closed"]), "flow_logs": st.just(False)}
    )
    vpc = {**here, "vpc_id": st.just("vpc-0123456789abcdef0")}
    services = {"service_subnets": st.just({zone: _SUBNETS[2], other_zone: _SUBNETS[3]})}
    one = st.fixed_dictionaries(
        {**vpc, "subnet_ids": st.just(_SUBNETS[:1]), **services},
        optional={"cidr": st.sampled_from(["10.0.0.0/20", "10.0.0.0/24", "10.0.0.0/27"])},
    )
    several = st.fixed_dictionaries({**vpc, "subnet_ids": st.just(_SUBNETS[:2]), **services})
    public = st.fixed_dictionaries({**vpc, "subnet_ids": st.just(_SUBNETS[:1]), "public": st.just(True)})
    usual = [one] * 6 + [made] * 3
    return st.integers(0, 10).flatmap(lambda number: [*usual, several, public][number])


def _stores() -> st.SearchStrategy[Data]:
    options = st.sampled_from(_LUSTRE_SIZES).flatmap(
        lambda size: st.fixed_dictionaries(
            {"storage_capacity_gib": st.just(size[0]), "throughput_mb_per_s_per_tib": st.just(size[1])},
            optional={"efa": st.just(True)} if size[0] == _LUSTRE_SIZES[-1][0] else {},
        )
    )
    existing = {
        "file_system_id": "fs-0123456789abcdef0",
        "mount_name": "abcdefgh",
        "security_group_id": "sg-0123456789abcdef0",
    }
    return st.fixed_dictionaries(
        {},
        optional={
            "corpus": st.fixed_dictionaries({"lustre": options}),
            "shared": st.just({"existing_lustre": existing}),
            "kept": st.just({"checkpoints": {}}),
        },
    )
