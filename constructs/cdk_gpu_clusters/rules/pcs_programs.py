"""Programs that the settings of a PCS cluster name: every node must have them, also one that others made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from cdk_gpu_clusters.errors import Finding, Severity, check, define_rule

NODE_PROGRAMS = define_rule(
    "GPU-PCS-068",
    "every node of a PCS cluster has the programs that Prolog and Epilog of the cluster name",
    source="slurm.conf(5), Prolog and Epilog; slurmd 24.11.5 and 26.05.5 (tests/slurm): where the pattern matches no "
    "file, slurmd fails the prolog, and the node is drained",
)
IMPORTED_SETTINGS = define_rule(
    "GPU-PCS-069",
    "an imported PCS cluster has the Slurm settings that the software of its nodes needs",
    source="slurm.conf(5), Prolog, Epilog, PrologFlags and SchedulerParameters",
)

#: Settings of a cluster that name programs on its nodes.
_PROGRAMS = ("Prolog", "Epilog")


def programs_of(settings: Mapping[str, str]) -> dict[str, str]:
    """The paths of the programs that the settings of a cluster name, by setting.

    Example:
        >>> programs_of({"Prolog": "/opt/site/prolog.sh", "JobRequeue": "1"})
        {'Prolog': '/opt/site/prolog.sh'}
    """
    return {name: settings[name] for name in _PROGRAMS if settings.get(name, "").startswith("/")}


@check
def check_node_programs(settings: Mapping[str, str], user_data: str) -> Iterator[Finding]:
    """Find programs of a cluster that the user data of its nodes does not name.

    An image may contain them, so that it is a warning.

    Args:
        settings: The settings of the cluster.
        user_data: The user data of the nodes; empty if they have none, or if it is not known.

    Example:
        >>> [one.got for one in check_node_programs({"Prolog": "/opt/site/prolog.sh"}, "#!/bin/sh")]
        ['Prolog=/opt/site/prolog.sh']
    """
    for name, path in programs_of(settings).items():
        if _folder(path) not in user_data:
            yield NODE_PROGRAMS.finding(
                cause=f"nodes without the programs of {name} are drained at their first job",
                got=f"{name}={path}",
                allowed=f"nodes whose image or user data has {_folder(path)}",
                fix="make them with PcsNodeGroup, or put the programs into their image",
                severity=Severity.WARNING,
            )


@check
def check_imported_settings(settings: Mapping[str, str], needed: Mapping[str, str]) -> Iterator[Finding]:
    """Find what an imported cluster lacks of the settings for the software of its nodes.

    Args:
        settings: Its settings, as far as they are in slurm.conf.
        needed: The settings that the software needs; of lists such as PrologFlags, each word.

    Example:
        >>> [one.got for one in check_imported_settings({"PrologFlags": "Contain"}, {"PrologFlags": "Alloc,Contain"})]
        ['PrologFlags=Contain']
    """
    for name, value in needed.items():
        given = settings.get(name, "")
        if not _words(name, value) <= _words(name, given):
            yield IMPORTED_SETTINGS.finding(
                cause="the cluster lacks a setting for the checks before and after jobs",
                got=f"{name}={given}" if given else f"no {name}",
                allowed=f"{name}={value}",
                fix=f"set it in the custom settings of the cluster: {name}={value}",
                severity=Severity.WARNING,
            )


def _words(name: str, value: str) -> set[str]:
    """The words of a setting. Slurm compares them without regard to case (slurm.conf(5)), but not paths."""
    return set((value if name in _PROGRAMS else value.lower()).split(","))


def _folder(path: str) -> str:
    """The top folder that is not one of the system's: /etc/gpu-cluster of /etc/gpu-cluster/prolog.d/*."""
    return str(PurePosixPath(*PurePosixPath(path).parts[:3]))
