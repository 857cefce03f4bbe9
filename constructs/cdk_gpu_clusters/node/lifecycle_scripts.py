"""The scripts by which AWS PCS learns whether a node may take work: node lifecycle actions.

The user data do all the work, with any version of the AWS PCS agent: they install the software, split the GPUs, mount,
check the boot, and keep slurmd from a node that is not ready. The scripts here add what only AWS PCS can do, with agent
1.5.0-1 or later: a node that fails its boot checks is terminated, and another one takes its place. Every step is a
systemd unit that runs once in a boot, so nothing happens twice, in whatever order AWS PCS runs both.

Sources: AWS PCS user guide, "Run custom scripts with node lifecycle actions", "Configure node lifecycle actions" and
"Run early boot operations with a cloud-init boothook"; botocore 1.44.5, service model `pcs`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from cdk_gpu_clusters.node.settings import NodeSettings
from cdk_gpu_clusters.node.user_data import CHECK_LINES, start_script

#: First version of the AWS PCS agent that runs the scripts (AWS PCS user guide, "Configure node lifecycle actions").
FIRST_AGENT_VERSION = "1.5.0-1"


class LifecycleStage(str, Enum):
    """When AWS PCS runs a script."""

    #: After AWS PCS has set up the node, before slurmd starts.
    NODE_BOOTSTRAPPED = "NodeBootstrapped"
    #: After slurmd has registered with the controller.
    NODE_READY = "NodeReady"


class OnError(str, Enum):
    """What AWS PCS does when a script fails."""

    #: Terminate the node.
    TERMINATE = "TERMINATE"
    #: Run no further script of the stage.
    STOP_SEQUENCE = "STOP_SEQUENCE"
    #: Run the next script.
    CONTINUE = "CONTINUE"


class ExecutionPolicy(str, Enum):
    """At which boots AWS PCS runs a script."""

    FIRST_BOOT_ONLY = "FIRST_BOOT_ONLY"
    EVERY_BOOT = "EVERY_BOOT"


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleScript:
    r"""A script that AWS PCS runs as root on each node of a compute node group.

    Its output is in `/var/log/amazon/pcs/lifecycle/actions/<stage>/<name>.log`.

    Attributes:
        name: Its name, unique in the group: up to 64 letters, digits, blanks, `_` and `-`.
        stage: When it runs.
        content: Its text, ASCII without CDK tokens, so that its SHA-256 is known at synthesis.
        arguments: Up to 20 arguments of up to 256 characters.
        on_error: What a failure leads to.
        execution: At which boots it runs.

    Example:
        >>> script = LifecycleScript(name="motd", stage=LifecycleStage.NODE_READY, content="#!/bin/sh\\n")
        >>> script.on_error.value, script.execution.value
        ('TERMINATE', 'EVERY_BOOT')
    """

    name: str
    stage: LifecycleStage
    content: str
    arguments: tuple[str, ...] = ()
    on_error: OnError = OnError.TERMINATE
    execution: ExecutionPolicy = ExecutionPolicy.EVERY_BOOT


# The name of the node in Slurm (aws-samples/aws-hpc-recipes, recipes/pcs/cluster_dns), for its watchdog and its drain.
_NAME = """\
if [ -n "${PCS_NODE_ID:-}" ]; then mkdir -p /run/gpu-cluster && echo "$PCS_NODE_ID" >/run/gpu-cluster/slurm-node; fi
"""
# The reason goes to standard output, which AWS PCS keeps in the script's log.
_CHECK = "\n".join([*CHECK_LINES, ""])
_READY = """\
#!/bin/sh
exec /usr/local/bin/gpunode registered
"""


def pcs_lifecycle_scripts(settings: NodeSettings) -> tuple[LifecycleScript, ...]:
    """The scripts of a compute node group.

    `gpu-node-boot` runs the boot checks before slurmd starts, or waits for those that the user data have started. Its
    failure terminates the node. The checks have sent their evidence by then. `gpu-node-ready` records what the
    controller knows of the node.

    Args:
        settings: What the nodes are and what they have to do, as for their user data.

    Example:
        >>> scripts = pcs_lifecycle_scripts(NodeSettings(fleet_name="train", orchestrator="pcs"))
        >>> [(script.name, script.stage.value, script.on_error.value) for script in scripts]
        [('gpu-node-boot', 'NodeBootstrapped', 'TERMINATE'), ('gpu-node-ready', 'NodeReady', 'CONTINUE')]
    """
    return (
        LifecycleScript(
            name="gpu-node-boot",
            stage=LifecycleStage.NODE_BOOTSTRAPPED,
            content=start_script(settings) + _NAME + _CHECK,
        ),
        LifecycleScript(
            name="gpu-node-ready",
            stage=LifecycleStage.NODE_READY,
            content=_READY,
            on_error=OnError.CONTINUE,
        ),
    )
