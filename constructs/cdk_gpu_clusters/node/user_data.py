"""The user data of a node: one MIME multi-part document of plain text.

It does not use CDK's `MultipartUserData`, which base64-encodes every part and so wastes a third of the 16 KB. Early
static files are one compressed archive. Everything that may hold a CDK token stays readable text, because
CloudFormation resolves tokens inside the document.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from cdk_gpu_clusters.errors import Finding, Severity, define_rule
from cdk_gpu_clusters.node.mig import default_mig_file, mig_files_command
from cdk_gpu_clusters.node.settings import NodeSettings, UserDataPart, nccl_environment
from cdk_gpu_clusters.node.software import NodeFile, SoftwareObject, early_files, inline_archive
from cdk_gpu_clusters.node.storage import LustreMount, Mount, NfsMount
from cdk_gpu_clusters.rules.secrets import check_secrets

#: Bytes of user data that EC2 accepts, before base64 (AWS EC2 user guide, "Run commands when you launch an EC2
#: instance with user data input": 16 KB).
USER_DATA_LIMIT_BYTES = 16_384

#: AWS PCS merges its own part with the user data before EC2 checks their size. No source says how long it is. A sample
#: of AWS has user data of 10,645 bytes before its parameters are filled in (awslabs/awsome-distributed-ai @ 95b939c,
#: architectures/aws-pcs/assets/add-cng.yaml), so the part has at most 5,739. This leaves 12,288 bytes for ours,
#: somewhat more than what is known to work.
ADDED_BY_PCS_BYTES = 4_096

#: AWS Batch merges its own part with the user data, too (AWS Batch user guide, "Amazon EC2 user data in launch
#: templates"). No source says how long it is: this library's choice, as for AWS PCS.
ADDED_BY_BATCH_BYTES = 4_096

#: The setting that `gpunode drain` reads.
DRAIN_AT = "GPU_DRAIN_AT"

SIZE = define_rule(
    "GPU-UD-001",
    "User data fits into 16,384 bytes",
    source="AWS EC2 user guide, user data: limited to 16 KB in raw form, before it is base64-encoded",
)
BLOCK_END = define_rule(
    "GPU-UD-010",
    "Nodes outside a fleet need the time at which their Capacity Block ends",
    source="AWS EC2 user guide, Capacity Blocks: EC2 terminates the instances from 30 minutes before the end, and "
    "notifies EventBridge, not the instance",
)
_BOUNDARY = "gpu-cluster-node"
#: By default a later cloud-config replaces the lists of an earlier one, and ours would be gone (seen with cloud-init
#: 22.4.2).
_MERGE = "list(append)+dict(no_replace,recurse_list)+str()"

_SOFTWARE, _BOOT, _DRAIN, _JOBS = "gpu-software", "gpu-node-boot", "gpu-node-drain", "gpu-node-jobs"
_EXPORTERS = "gpu-exporters"
#: What runs on every node.
_UNITS = (_BOOT, _DRAIN, "gpu-node-watch", "gpu-node-ship.timer")
#: A boothook runs at every boot; this marks the first. cloud-init keeps the folder for each instance.
_DONE = "/var/lib/cloud/instance/gpu-cluster"
_END = "gpu-cluster-end"
#: Orchestrators that merge a part of their own with the user data.
_MERGED = ("pcs", "batch")


def render_user_data(settings: NodeSettings, software: SoftwareObject) -> str:
    """Write the user data of a node.

    The document has an early part, which installs everything that other services need and writes the settings:
    `text/cloud-config`, or `text/cloud-boothook` under AWS PCS and AWS Batch. A short `text/x-shellscript` part fetches
    and starts the rest. EKS nodes with a NodeConfig have an `application/node.eks.aws` part. The user's parts come
    last.

    Args:
        settings: What the node is and what it has to do; texts may be CDK tokens.
        software: Object that holds `software_archive(settings.files)`.

    Returns:
        MIME text, the same for the same settings. Give it to `check_user_data` next.

    Example:
        >>> software = SoftwareObject(bucket_name="b", object_key="k.tar", sha256="0" * 64)
        >>> render_user_data(NodeSettings(fleet_name="preprocessing"), software).splitlines()[0]
        'MIME-Version: 1.0'
    """
    boundary = _BOUNDARY
    while any(f"--{boundary}" in part.body for part in settings.user_parts):
        boundary += "-"
    lines = ["MIME-Version: 1.0", f'Content-Type: multipart/mixed; boundary="{boundary}"', ""]
    for part in own_parts(settings, software):
        lines += [f"--{boundary}", f"Content-Type: {part.content_type}", "", _ending_in_one_newline(part.body)]
    for part in settings.user_parts:
        lines += [f"--{boundary}", f"Content-Type: {part.content_type}"]
        if part.content_type == "text/cloud-config":
            lines += [f"X-Merge-Type: {_MERGE}", "", _ending_in_one_newline(_merging(part.body))]
        else:
            lines += ["", _ending_in_one_newline(part.body)]
    return "\n".join([*lines, f"--{boundary}--", ""])


def _merging(body: str) -> str:
    """The user's cloud-config with its merge strategy in the body: EKS merges parts again, and may drop a header."""
    comments = re.match(r"(?:[ \t]*(?:#.*)?\n)*(?=[\w-]+:)", body)
    if comments is None or re.search(r"^merge_(how|type):", body, re.MULTILINE):
        return body
    return f'{comments[0]}merge_how: "{_MERGE}"\n{body[comments.end() :]}'


def _ending_in_one_newline(body: str) -> str:
    # The newline before a boundary belongs to the boundary (RFC 2046, 5.1.1): the body needs one of its own.
    return body.rstrip("\n") + "\n"


def own_parts(settings: NodeSettings, software: SoftwareObject) -> list[UserDataPart]:
    """The parts before those of the user.

    Args:
        settings: What the node is and what it has to do.
        software: Object that holds the files that are not early.
    """
    files = setting_files(settings, software)
    early = (
        UserDataPart(content_type="text/cloud-boothook", body=_boothook(settings, files))
        if settings.orchestrator in _MERGED
        else UserDataPart(content_type="text/cloud-config", body=_cloud_config(settings, files))
    )
    start = UserDataPart(content_type="text/x-shellscript", body=start_script(settings))
    node_config = [UserDataPart(content_type="application/node.eks.aws", body=settings.node_config)]
    return [early, start, *(node_config if settings.node_config else [])]


def user_data_files(settings: NodeSettings) -> tuple[NodeFile, ...]:
    """The static files in the user data: those that must exist before any other service starts.

    Args:
        settings: What the node is and what it has to do.
    """
    own = early_files(mig=settings.mig is not None, orchestrator=settings.orchestrator)
    return (*own, *(file for file in settings.files if file.early))


def _cloud_config(settings: NodeSettings, files: Mapping[str, list[str]]) -> str:
    # bootcmd, not write_files: it runs before all other services, so that they start under the raised limits.
    mig = settings.mig
    # Queued now, so that the services that wait for them find them among the jobs.
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
    """The early part under AWS PCS and AWS Batch: they add a part of their own, and a boothook needs no merging.

    That of AWS PCS has a `bootcmd`, which would replace ours.
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
        # slurmd or the ECS agent starts later, and pulls it in.
        f"{_unpack(settings)} && {_reload_with([_BOOT])}",
        f"mkdir -p {folders}",
    ]
    for path, text in files.items():
        lines += [f"cat >{path} <<'{_END}'", *text, _END]
    lines += [f"systemctl start --no-block {_SOFTWARE}", f"touch {_DONE}", "fi"]
    if mig is not None:
        # gpu-node-boot reports a failure.
        lines.append("MIG_BOOTHOOK=1 /usr/local/libexec/gpu-cluster/mig-apply || true")
    return "\n".join(lines)


def _unpack(settings: NodeSettings) -> str:
    return f"echo {inline_archive(user_data_files(settings))} | base64 -d | tar -xzC /"


def _reload_with(units: Sequence[str]) -> str:
    # systemctl enable reloads all units, too: once is enough.
    return f"systemctl enable {' '.join(units)}" if units else "systemctl daemon-reload"


def setting_files(settings: NodeSettings, software: SoftwareObject | None = None) -> dict[str, list[str]]:
    """The lines of each file that holds settings of a node, by its path.

    Args:
        settings: What the node is and what it has to do.
        software: Object that holds the files that are not early; None if the node gets them in another way.
    """
    nccl = nccl_environment(settings)
    session = {name: value for name, value in nccl.items() if not name.startswith("NCCL_")}
    if settings.scratch is not None:
        session["SCRATCH_DIR"] = settings.scratch.mount_point
    session.update(sorted(settings.checkpoint_environment.items()))
    session.update(sorted(settings.extra_environment.items()))
    environment = {**node_environment(settings), **({} if software is None else software.environment())}
    files = {"/etc/gpu-cluster/node.env": list(_assignments(environment))}
    if nccl:
        # NCCL reads this file in every process, however it was started. No "=" in the comment: NCCL splits at it.
        source = "# awslabs/awsome-distributed-ai efa-cheatsheet.md @ 95b939c; the environment of a job wins"
        files["/etc/nccl.conf"] = [source, *(f"{name}={value}" for name, value in nccl.items())]
    if session:
        files["/etc/profile.d/gpu-cluster.sh"] = [f"export {line}" for line in _assignments(session)]
    for kind, path in ((LustreMount, "/etc/gpu-cluster/mounts"), (NfsMount, "/etc/gpu-cluster/nfs-mounts")):
        lines = [mount.line() for mount in settings.mounts if isinstance(mount, kind)]
        if lines:
            files[path] = lines
    if settings.huge_pages is not None:
        files["/etc/sysctl.d/99-gpu-cluster.conf"] = [f"vm.nr_hugepages = {settings.huge_pages}"]
    return files


def _assignments(variables: Mapping[str, str]) -> Iterable[str]:
    return (f"{name}={shlex.quote(value)}" for name, value in variables.items())


def start_script(settings: NodeSettings) -> str:
    """The script that fetches the software, and starts the units of the node. To run it twice does nothing more.

    Args:
        settings: What the node is and what it has to do.
    """
    lines = [
        "#!/bin/sh",
        # Everything below needs it. It reports its own failure, and must not try again.
        f"if systemctl is-failed --quiet {_SOFTWARE} || ! systemctl start {_SOFTWARE}; then exit 1; fi",
        *unit_lines(settings),
    ]
    return "\n".join([*lines, ""])


# The first text of this name in the result, whose events have others.
_REASON = r"""^{"state": "[a-z]*", "reason": "\(\([^"\]\|\\.\)*\)".*"""
#: Lines of a script that check the node, and print why it fails.
CHECK_LINES = (
    "if systemctl start gpu-node-boot; then exit 0; fi",
    rf"sed -n 's/{_REASON}/gpu-node-boot: \1/p' /run/gpu-cluster/boot.json",
    "exit 1",
)


def unit_lines(settings: NodeSettings) -> list[str]:
    """The lines of a script that start the units of a node whose software is there.

    Args:
        settings: What the node is and what it has to do.
    """
    early = ["gpu-metadata"] if settings.metadata_users else []
    early += ["gpu-scratch"] if settings.scratch is not None else []
    early += ["gpu-nfs"] if _count(settings, NfsMount) else []
    early += ["gpu-lustre"] if _count(settings, LustreMount) else []
    units = [unit for unit in _UNITS if unit != _DRAIN or settings.watch_drain]
    units += [_JOBS] if settings.runs_jobs else []
    units += [_EXPORTERS] if settings.exporters is not None else []
    lines = [f"{_reload_with([*early, *units])} || exit 1"]
    if early:
        # The user's scripts come next and find the mounts. gpu-node-boot reports a failure, with its reason.
        start = f"systemctl start {' '.join(early)}"
        lines.append(f"timeout {settings.boot_deadline_seconds} {start} || true")
    # --no-block: gpu-node-boot waits for cloud-init, which waits for this script; gpu-node-watch waits for both.
    return [*lines, f"systemctl start --no-block {' '.join(units)}"]


def node_environment(settings: NodeSettings) -> dict[str, str]:
    """The settings in `/etc/gpu-cluster/node.env` that the node's programs read; an empty text if one is not set.

    Args:
        settings: What the node is and what it has to do.
    """
    values = {
        "GPU_FLEET": settings.fleet_name,
        "GPU_REGION": settings.region,
        "GPU_LAUNCH_HOOK": settings.launch_hook_name,
        "GPU_TERMINATE_HOOK": settings.terminate_hook_name,
        "GPU_BOOT_DEADLINE": settings.boot_deadline_seconds,
        "GPU_DRAIN_DEADLINE": settings.drain_deadline_seconds,
        "GPU_LOG_GROUP": settings.log_group_name,
        "GPU_INSPECTION": settings.inspection_seconds or None,
        **({"GPU_REPLACEMENTS": settings.replacements_per_hour} if settings.replacements_per_hour else {}),
        "GPU_EVIDENCE_URI": settings.evidence_uri,
        **({"GPU_METADATA_USERS": " ".join(settings.metadata_users)} if settings.metadata_users else {}),
        "GPU_ORCHESTRATOR": settings.orchestrator,
        **({} if settings.drain_at is None else {DRAIN_AT: instant(settings.drain_at)}),
        **({} if settings.slurm_bin is None else {"GPU_SLURM_BIN": settings.slurm_bin}),
        **({"GPU_SCALES": 1} if settings.scales else {}),
        "GPU_ACCELERATOR": settings.accelerator_kind,
        "GPU_ACCELERATOR_COUNT": settings.accelerator_count,
        "GPU_EFA_COUNT": settings.efa_interface_count,
        "GPU_SLOTS": settings.processes_per_node or max(1, _device_count(settings)),
        "GPU_HUGE_PAGES": settings.huge_pages,
        **_imex(settings),
    }
    values |= settings.watch.environment()
    if settings.exporters is not None:
        values |= settings.exporters.environment()
    if settings.gpu_facts is not None:
        values |= settings.gpu_facts.environment()
    if settings.mig is not None:
        values["GPU_MIG_COUNT"] = settings.mig.device_count
    if _count(settings, LustreMount):
        values["GPU_MOUNTS"] = _count(settings, LustreMount)
    if _count(settings, NfsMount):
        values["GPU_NFS_MOUNTS"] = _count(settings, NfsMount)
    if settings.directory is not None:
        values |= settings.directory.environment()
    if settings.lustre_efa is not None:
        values |= settings.lustre_efa.environment()
    if settings.scratch is not None:
        values["GPU_SCRATCH"] = settings.scratch.mount_point
        values["GPU_SCRATCH_DISKS"] = settings.scratch.disk_count
    return {name: "" if value is None else str(value) for name, value in values.items()}


def _imex(settings: NodeSettings) -> dict[str, int]:
    """Who makes the IMEX domains of jobs on UltraServers, P6e.

    Under Slurm the prolog does (AWS PCS user guide). On EKS it is NVIDIA's DRA driver, by daemons of its own: the
    service of the image must not run (kubernetes-sigs/dra-driver-nvidia-gpu v0.4.1, docs/prerequisites.md).
    """
    if not (settings.instance_family or "").startswith("p6e-"):
        return {}
    return {"pcs": {"GPU_IMEX": 1}, "slurm": {"GPU_IMEX": 1}, "eks": {"GPU_IMEX_OFF": 1}}.get(
        settings.orchestrator or "", {}
    )


def _count(settings: NodeSettings, kind: type[Mount]) -> int:
    """How many mounts of a kind the node has."""
    return sum(isinstance(mount, kind) for mount in settings.mounts)


def _device_count(settings: NodeSettings) -> int:
    mig = settings.mig
    return settings.accelerator_count if mig is None else mig.device_count + mig.whole_gpu_count


def instant(moment: datetime) -> str:
    """A time in the format of the node settings.

    Example:
        >>> instant(datetime(2026, 12, 15, 10, 50, tzinfo=UTC))
        '2026-12-15T10:50:00Z'
    """
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


_TOKEN = re.compile(r"\$\{Token\[[^]]*]}")
#: Assumed size of the value of a token: the ARN of a secret, the longest value.
_TOKEN_BYTES = 128

# Only `NodeUserData` writes these, not a fleet.
_FOREIGN = re.compile(r"\bGPU_ORCHESTRATOR='?(?:eks|pcs|batch)\b")


def user_data_size_bytes(text: str) -> int:
    """Bytes that count against EC2's limit, with one length for all tokens, since only a deployment knows their values.

    The length of the token itself depends on the rest of the app.
    """
    return len(_TOKEN.sub("x" * _TOKEN_BYTES, text).encode())


def check_user_data(text: str, *, added_bytes: int = 0, not_secret: Sequence[str] = ()) -> list[Finding]:
    """Find what EC2 would refuse, and apparent secrets, in a document of `render_user_data`.

    Args:
        text: The user data, before base64.
        added_bytes: Bytes that another service adds before EC2 gets it.
        not_secret: Names of variables and options, and values, that only look like secrets.

    Returns:
        `GPU-UD-001` if it is too long, `GPU-UD-002` for each apparent secret.
    """
    return [*check_user_data_size(text, added_bytes=added_bytes), *check_secrets(text, not_secret=not_secret)]


def check_user_data_size(text: str, *, added_bytes: int = 0) -> list[Finding]:
    """Find user data that is longer than EC2 accepts.

    Args:
        text: The user data, before base64.
        added_bytes: Bytes that another service adds before EC2 gets it.
    """
    size = user_data_size_bytes(text) + added_bytes
    if size <= USER_DATA_LIMIT_BYTES:
        return []
    parts = sorted(_part_sizes(text).items(), key=lambda item: -item[1])
    biggest = ", ".join(f"{name} {length:,}" for name, length in parts[:3])
    return [
        SIZE.finding(
            cause=f"the user data is {size - USER_DATA_LIMIT_BYTES:,} bytes too long; biggest parts: {biggest}",
            got=f"{size:,} bytes" + (f", {added_bytes:,} of them for what is added" if added_bytes else ""),
            allowed=f"at most {USER_DATA_LIMIT_BYTES:,} bytes, before base64",
            fix="mark node files that can wait early=False, so that they travel in an S3 asset; fetch big scripts of "
            "your own from S3 in a short one",
        )
    ]


def check_block_end(text: str, drain_at: datetime | None) -> list[Finding]:
    """Find user data whose end of the block differs from the launch template's, or is missing.

    Args:
        text: User data; only those of `NodeUserData` are checked.
        drain_at: When the nodes begin to drain; None for capacity without an end.
    """
    if not _FOREIGN.search(text):
        return []
    found = re.search(rf"\b{DRAIN_AT}='?([^\s']+)", text)
    got, wanted = found[1] if found else "nothing", "nothing" if drain_at is None else instant(drain_at)
    if got == wanted:
        return []
    return [
        BLOCK_END.finding(
            cause="the nodes would be drained at another time than their capacity requires"
            if found
            else "the nodes do not know when their Capacity Block ends, and EC2 terminates them with their work",
            got=f"{DRAIN_AT} {got}",
            allowed=wanted,
            fix="pass the same capacity to NodeUserData and to GpuLaunchTemplate",
            path="user_data",
            severity=Severity.ERROR if found else Severity.WARNING,
        )
    ]


def _part_sizes(text: str) -> dict[str, int]:
    boundary = re.search(r'boundary="([^"]+)"', text)
    pieces = text.split(f"--{boundary[1]}\n")[1:] if boundary else [text]
    sizes = {}
    for number, piece in enumerate(pieces, start=1):
        kind = re.match(r"Content-Type: (\S+)", piece)
        sizes[f"part {number} ({kind[1] if kind else 'text'})"] = user_data_size_bytes(piece)
    return sizes
