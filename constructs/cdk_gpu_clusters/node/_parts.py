"""The library's own parts of a node's user data."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence

from cdk_gpu_clusters.node._archive import inline_archive
from cdk_gpu_clusters.node.mig import default_mig_file, mig_files_command
from cdk_gpu_clusters.node.node_environment import node_environment
from cdk_gpu_clusters.node.settings import NodeSettings, UserDataPart, nccl_environment
from cdk_gpu_clusters.node.software import SoftwareObject, user_data_files

_SOFTWARE, _BOOT, _DRAIN = "gpu-software", "gpu-node-boot", "gpu-node-drain"
#: What runs on every node.
_UNITS = (_BOOT, _DRAIN, "gpu-node-watch", "gpu-node-ship.timer")
#: A boothook runs at every boot; this marks the first. cloud-init keeps the folder for each instance.
_DONE = "/var/lib/cloud/instance/gpu-cluster"
_END = "gpu-cluster-end"


def own_parts(settings: NodeSettings, software: SoftwareObject) -> list[UserDataPart]:
    """The parts before those of the user.

    Args:
        settings: What the node is and what it has to do.
        software: Object that holds the files that are not early.
    """
    files = _setting_files(settings, software)
    early = (
        UserDataPart(content_type="text/cloud-boothook", body=_boothook(settings, files))
        if settings.orchestrator == "pcs"
        else UserDataPart(content_type="text/cloud-config", body=_cloud_config(settings, files))
    )
    start = UserDataPart(content_type="text/x-shellscript", body=_start_script(settings))
    node_config = [UserDataPart(content_type="application/node.eks.aws", body=settings.node_config)]
    return [early, start, *(node_config if settings.node_config else [])]


def _cloud_config(settings: NodeSettings, files: Mapping[str, list[str]]) -> str:
    # bootcmd, not write_files: it runs before all other services, so that they start under the raised limits.
    mig = settings.mig
    # Queued now, so that what they hold back finds them among the jobs to wait for.
    units = ["gpu-mig"] if mig is not None else []
    units += [_BOOT] if settings.orchestrator == "eks" else []
    steps = [
        _unpack(settings),
        *([] if mig is None else [mig_files_command(mig)]),
        _reload_with(units),
        # --no-block: all of them come after the stage of cloud-init that runs this.
        f"systemctl start --no-block {' '.join([*units, _SOFTWARE])}",
    ]
    lines = [
        "#cloud-config",
        "bootcmd:",
        f"- [cloud-init-per, instance, gpu-node, sh, -c, {json.dumps(' && '.join(steps))}]",
        "write_files:",
    ]
    for path, text in files.items():
        lines += [f"- path: {path}", "  content: |", *(f"    {line}".rstrip() for line in text)]
    return "\n".join(lines)


def _boothook(settings: NodeSettings, files: Mapping[str, list[str]]) -> str:
    """The early part under AWS PCS, whose own part has `bootcmd` too: nothing has to be merged this way.

    It comes before AWS PCS registers the node, so that a reboot for MIG is safe (AWS PCS user guide, "Run early boot
    operations with a cloud-init boothook").
    """
    mig = settings.mig
    if mig is not None:
        files = {**files, "/etc/default/mig": default_mig_file(mig).splitlines()}
    folders = " ".join(sorted({path.rpartition("/")[0] for path in files}))
    lines = [
        "#!/bin/sh",
        f"if [ ! -e {_DONE} ]; then",
        # slurmd starts later, and pulls it in.
        f"{_unpack(settings)} && {_reload_with([_BOOT])}",
        f"mkdir -p {folders}",
    ]
    for path, text in files.items():
        lines += [f"cat >{path} <<'{_END}'", *text, _END]
    lines += [f"systemctl start --no-block {_SOFTWARE}", f"touch {_DONE}", "fi"]
    if mig is not None:
        # gpu-node-boot tells what fails here.
        lines.append("MIG_BOOTHOOK=1 /usr/local/libexec/gpu-cluster/mig-apply || true")
    return "\n".join(lines)


def _unpack(settings: NodeSettings) -> str:
    return f"echo {inline_archive(user_data_files(settings))} | base64 -d | tar -xzC /"


def _reload_with(units: Sequence[str]) -> str:
    # systemctl enable reloads all units, too: once is enough.
    return f"systemctl enable {' '.join(units)}" if units else "systemctl daemon-reload"


def _setting_files(settings: NodeSettings, software: SoftwareObject) -> dict[str, list[str]]:
    nccl = nccl_environment(settings)
    session = {name: value for name, value in nccl.items() if not name.startswith("NCCL_")}
    if settings.scratch is not None:
        session["SCRATCH_DIR"] = settings.scratch.mount_point
    session.update(sorted(settings.checkpoint_environment.items()))
    session.update(sorted(settings.extra_environment.items()))
    told = {**node_environment(settings), **software.environment()}
    files = {"/etc/gpu-cluster/node.env": list(_assignments(told))}
    if nccl:
        # NCCL reads this file in every process, however it was started. No "=" in the comment: NCCL splits at it.
        source = "# awslabs/awsome-distributed-ai efa-cheatsheet.md @ 95b939c; the environment of a job wins"
        files["/etc/nccl.conf"] = [source, *(f"{name}={value}" for name, value in nccl.items())]
    if session:
        files["/etc/profile.d/gpu-cluster.sh"] = [f"export {line}" for line in _assignments(session)]
    if settings.mounts:
        files["/etc/gpu-cluster/mounts"] = [mount.line() for mount in settings.mounts]
    if settings.huge_pages is not None:
        files["/etc/sysctl.d/99-gpu-cluster.conf"] = [f"vm.nr_hugepages = {settings.huge_pages}"]
    return files


def _assignments(variables: Mapping[str, str]) -> Iterable[str]:
    return (f"{name}={shlex.quote(value)}" for name, value in variables.items())


def _start_script(settings: NodeSettings) -> str:
    storage = ["gpu-scratch"] if settings.scratch is not None else []
    storage += ["gpu-lustre"] if settings.mounts else []
    units = [unit for unit in _UNITS if unit != _DRAIN or settings.watch_drain]
    lines = [
        "#!/bin/sh",
        # Nothing below is there without it. It says itself why it failed, and is not to try again.
        f"if systemctl is-failed --quiet {_SOFTWARE} || ! systemctl start {_SOFTWARE}; then exit 1; fi",
        f"{_reload_with([*storage, *units])} || exit 1",
    ]
    if storage:
        # The user's scripts come next and find the mounts. What fails here is told by gpu-node-boot, with its reason.
        start = f"systemctl start {' '.join(storage)}"
        lines.append(f"timeout {settings.boot_deadline_seconds} {start} || true")
    # --no-block: gpu-node-boot waits for cloud-init, which waits for this script; gpu-node-watch waits for both.
    return "\n".join([*lines, f"systemctl start --no-block {' '.join(units)}", ""])
