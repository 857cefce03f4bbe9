"""The lifecycle script of HyperPod nodes, which checks the node.

HyperPod copies a folder of S3 to each node, and runs one of its files as root: on Slurm after its own set-up
(`OnInitComplete`), on Amazon EKS before kubelet and containerd start (`OnCreate`). The folder has two files. `setup.sh`
unpacks `software.tar`, which holds the node software with the settings of the group, and runs the boot checks. Nothing
in the folder is known at deployment only, since an object in S3 holds no references.

If the script fails, the group is not made, or the node is provisioned again. A later boot does not run it: systemd
starts the checks then, and the watchdog signals a node that fails them.

Sources: botocore 1.44.5, sagemaker service model: ClusterLifeCycleConfig; awslabs/awsome-distributed-ai @ 95b939c,
1.architectures/5.sagemaker-hyperpod/Extensions (add-users, observability): folders of several files, and the status of
the script; 7.sagemaker-hyperpod-eks/LifecycleScripts/base-config/on_create_main.sh: it moves the folders of containerd
and kubelet, and restarts neither.
"""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Mapping

from cdk_gpu_clusters.errors import Finding, define_rule
from cdk_gpu_clusters.node.settings import NodeSettings
from cdk_gpu_clusters.node.software import NodeFile, archive, late_files
from cdk_gpu_clusters.node.user_data import CHECK_LINES, setting_files, unit_lines, user_data_files

#: Name of the script, and of the files beside it.
SETUP_FILE, _SOFTWARE_FILE, _OWN_FILE = "setup.sh", "software.tar", "own.sh"

STATIC = define_rule(
    "GPU-HYP-023",
    "What HyperPod nodes get through S3 is known at synthesis",
    source="an object in S3 holds no references, which CloudFormation would resolve",
)

#: A folder for nodes without the software: on Amazon EKS every instance group has a script.
EMPTY_FOLDER: Mapping[str, bytes] = {SETUP_FILE: b"#!/bin/sh\nexit 0\n"}

# The agent sends this file alone to the log of the cluster, from time to time (Amazon SageMaker AI developer guide,
# "SageMaker HyperPod FAQs"), and a node whose script failed ends: AWS's own scripts append to it and wait as long
# (awslabs/awsome-distributed-ai @ 95b939c, 5.sagemaker-hyperpod/Extensions/run_extensions.sh).
_LOG = "/var/log/provision/provisioning.log"
_KEEP_REASON = (
    f"mkdir -p {posixpath.dirname(_LOG)} && exec >>{_LOG} 2>&1",
    "trap '[ $? = 0 ] || { sync; sleep 60; }' EXIT",
)


def hyperpod_folder(settings: NodeSettings, *, setup_script: str = "") -> dict[str, bytes]:
    """The files of the folder, by name: the same bytes for the same settings.

    Args:
        settings: What the nodes are and what they have to do.
        setup_script: A script of your own, which runs before the checks; its failure fails the node.

    Example:
        >>> sorted(hyperpod_folder(NodeSettings(fleet_name="train", orchestrator="hyperpod-slurm")))
        ['setup.sh', 'software.tar']
    """
    texts = {path: "\n".join([*lines, ""]) for path, lines in setting_files(settings).items()}
    files = {file.path: file for file in (*late_files(), *user_data_files(settings), *settings.files)}
    files |= {path: NodeFile(path=path, text=text) for path, text in texts.items()}
    software = archive(list(files.values()))
    folder = {_SOFTWARE_FILE: software, SETUP_FILE: _setup(settings, software, has_own=bool(setup_script)).encode()}
    return folder | ({_OWN_FILE: setup_script.encode()} if setup_script else {})


def _setup(settings: NodeSettings, software: bytes, *, has_own: bool) -> str:
    digest = hashlib.sha256(software).hexdigest()
    lines = [
        "#!/bin/sh",
        *_KEEP_REASON,
        'cd "$(dirname "$0")" || exit 1',
        f"echo '{digest}  {_SOFTWARE_FILE}' | sha256sum --check --quiet || exit 1",
        f"tar -xf {_SOFTWARE_FILE} -C / || exit 1",
        # The user of jobs; where it is missing, only jobs fail.
        "systemd-sysusers gpu-job.conf || true",
        *([f"chmod +x {_OWN_FILE} && ./{_OWN_FILE} || exit 1"] if has_own else []),
        *unit_lines(settings),
        *CHECK_LINES,
    ]
    return "\n".join([*lines, ""])


def check_static(texts: Mapping[str, str]) -> list[Finding]:
    """Find texts that are known at deployment only, or that are not ASCII.

    Args:
        texts: The texts by the option that holds them.
    """
    return [
        STATIC.finding(
            cause="the text holds a CDK token or a character beyond ASCII, and travels to the nodes through S3",
            got=name,
            allowed="ASCII text that is known at synthesis",
            fix="read the value on the node, such as from a parameter of Systems Manager with a name of your own",
            path=name,
        )
        for name, text in texts.items()
        if "${Token[" in text or not text.isascii()
    ]
