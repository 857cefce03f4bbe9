"""Ray on the nodes of a plain EC2 fleet: a systemd unit that starts after the checks of the boot."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace

from cdk_gpu_clusters.errors import Finding, check, define_rule
from cdk_gpu_clusters.node.settings import NodeWatch, UserDataPart

#: The unit, in the software of every node; only the part of `ray_part` starts it.
RAY_UNIT = "gpu-ray.service"
_PROGRAM = re.compile(r"(/[A-Za-z0-9][A-Za-z0-9._+-]*)+", re.ASCII)
#: RFC 1123, 2.1.
_HOST = re.compile(
    r"(?=.{1,253}$)[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?)*"
)

PROGRAM = define_rule(
    "GPU-RAY-012",
    "Ray on nodes has the absolute path of a program, and a host name for its head if any",
    source="this library: both are written to a script of the user data; RFC 1123, 2.1, host names",
)
WHOLE_GPUS = define_rule(
    "GPU-RAY-013",
    "Ray on nodes runs on unsplit GPUs",
    source="Ray counts GPUs by number, and gives tasks CUDA_VISIBLE_DEVICES of such numbers (ray 2.60.0 (PyPI), "
    "ray/_private/accelerators/nvidia_gpu.py), which no slice of MIG has",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RayNodes:
    """Ray on every node of a fleet. The nodes run it as the user `gpu-job`, and restart it whenever it ends.

    Example:
        >>> RayNodes(head="ray.lab.internal").program
        '/opt/ray/bin/ray'

    Attributes:
        program: Path of `ray` on the nodes, where the image or one of `user_data_parts` has installed it.
        head: Private DNS name of the head, which may be a CDK token: the node with the address that it leads to is the
            head, all others join it. The nodes of the fleet choose one of themselves if left out.
    """

    program: str = "/opt/ray/bin/ray"
    head: str | None = None


def ray_part(ray: RayNodes) -> UserDataPart:
    """The script that writes the settings and starts Ray.

    Args:
        ray: The settings.

    Example:
        >>> ray_part(RayNodes()).body.splitlines()[0]
        '#!/bin/sh'
    """
    lines = [
        "#!/bin/sh",
        "set -e",
        "cat >/etc/gpu-cluster/ray.env <<'END_OF_RAY'",
        f"RAY_PROGRAM={shlex.quote(ray.program)}",
        f"RAY_HEAD={'' if ray.head is None else ray.head}",
        "END_OF_RAY",
        # --no-block: it waits for the checks of the boot, which wait for this script.
        f"systemctl enable {RAY_UNIT} && systemctl start --no-block {RAY_UNIT}",
    ]
    return UserDataPart(content_type="text/x-shellscript", body="\n".join([*lines, ""]))


def watch_with_ray(watch: NodeWatch) -> NodeWatch:
    """How nodes that run Ray are watched: it is a job of the node, and stopped with the others.

    Args:
        watch: How they are watched otherwise.

    Example:
        >>> watch_with_ray(NodeWatch(job_units=("own.service",))).job_units
        ('own.service', 'gpu-ray.service')
    """
    return replace(watch, job_units=(*watch.job_units, RAY_UNIT))


@check
def check_ray_nodes(ray: RayNodes, *, is_split: bool, head_is_known: bool = True) -> Iterator[Finding]:
    """Find settings with which Ray does not start.

    Args:
        ray: The settings.
        is_split: Whether the GPUs of the nodes are split with MIG.
        head_is_known: Whether the name of the head is known at synthesis, which a CDK token is not.

    Example:
        >>> [one.id for one in check_ray_nodes(RayNodes(program="ray"), is_split=True)]
        ['GPU-RAY-012', 'GPU-RAY-013']
    """
    if not _PROGRAM.fullmatch(ray.program):
        yield PROGRAM.finding(
            cause="the nodes do not find Ray there",
            got=repr(ray.program),
            allowed="an absolute path, such as /opt/ray/bin/ray",
            fix="give the path at which the image, or a user-data part, has installed Ray",
            path="ray.program",
        )
    if ray.head is not None and head_is_known and not _HOST.fullmatch(ray.head):
        yield PROGRAM.finding(
            cause="this is not a host name",
            got=repr(ray.head),
            allowed="such as ray.lab.internal",
            fix="give the private DNS name of the head without a port, or leave head out",
            path="ray.head",
        )
    if is_split:
        yield WHOLE_GPUS.finding(
            cause="Ray would count the slices of these nodes wrongly",
            got="a fleet with MIG",
            allowed="a fleet whose GPUs are not split",
            fix="leave ray or mig out",
            path="ray",
        )
