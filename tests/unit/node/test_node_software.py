"""Where the static files of a node travel, and the archive of those that come from S3."""

from __future__ import annotations

import hashlib
import io
import re
import subprocess
import sys
import tarfile
from dataclasses import replace
from typing import Any

from cdk_gpu_clusters.node.mig import mig_settings
from cdk_gpu_clusters.node.model_server import ServerSettings, model_server_files, model_server_part
from cdk_gpu_clusters.node.settings import NodeSettings, UserDataPart
from cdk_gpu_clusters.node.software import GPUNODE_FOLDER, NodeFile, archive, software_archive, software_files
from cdk_gpu_clusters.node.storage import LustreMount
from cdk_gpu_clusters.node.user_data import (
    USER_DATA_LIMIT_BYTES,
    check_user_data,
    render_user_data,
    user_data_files,
    user_data_size_bytes,
)
from cdk_gpu_clusters.rules.mig import MigLayout, plan_mig
from cdk_gpu_clusters.rules.model_servers import ServerSlots, plan_servers
from rendered import SOFTWARE, rendered

SERVERS = ServerSettings(
    image="123456789012.dkr.ecr.ap-southeast-2.amazonaws.com/team/server:2026-11-01",
    plan=plan_servers("p4d.24xlarge", ServerSlots.per_mig_slice(56)),
    container_port=8000,
    health_path="/health",
    command=["--model", "/models/llama", "--max-model-len", "8192"],
    environment={"VLLM_LOGGING_LEVEL": "WARNING", "HF_HOME": "/fsx/huggingface"},
)


def settings(**changes: Any) -> NodeSettings:
    return NodeSettings(**{"fleet_name": "trainers", **changes})


def split_gpus_with_servers() -> NodeSettings:
    """56 slices with a model server on each, two file systems and variables."""
    return settings(
        accelerator_kind="gpu", accelerator_count=8, launch_hook_name="node-ready", terminate_hook_name="node-drain",
        log_group_name="l" * 100,
        mig=mig_settings(plan_mig("p4d.24xlarge", MigLayout(["1g.5gb"] * 7))),
        files=model_server_files(SERVERS), user_parts=(model_server_part(SERVERS),),
        mounts=tuple(
            LustreMount(mount_point=point, dns_name="fs-0123456789abcdef0.fsx.ap-southeast-2.amazonaws.com", mount_name="abcdbev")
            for point in ("/fsx", "/models")
        ),
        extra_environment={"HF_HOME": "/fsx/huggingface", "CUDA_CACHE_PATH": "/fsx/cuda"},
    )  # fmt: skip


def members(content: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        return {member.name: member for member in tar.getmembers()}


def test_what_counts_is_the_size_at_deployment_not_that_of_tokens() -> None:
    document = rendered(settings(log_group_name="/gpu/trainers"))
    part = UserDataPart(content_type="text/x-shellscript", body="#!/bin/sh\n#" + "x" * (16_100 - len(document)))
    close = settings(log_group_name="/gpu/trainers", user_parts=(part,))
    assert check_user_data(rendered(close)) == []
    for token in ("${Token[TOKEN.7]}", "${Token[TOKEN.12345]}", "${Token[Servers.Logs.Name.7]}"):
        document = rendered(replace(close, log_group_name=f"{token}{token}"))
        assert len(document) < USER_DATA_LIMIT_BYTES
        assert [finding.id for finding in check_user_data(document)] == ["GPU-UD-001"]


def test_the_largest_node_leaves_room_in_its_user_data() -> None:
    document = rendered(split_gpus_with_servers())
    assert check_user_data(document) == []
    assert USER_DATA_LIMIT_BYTES - user_data_size_bytes(document) > 4.5 * 1024, user_data_size_bytes(document)


def test_the_boot_needs_the_object_first_and_knows_its_digest() -> None:
    document = rendered(settings(mounts=split_gpus_with_servers().mounts))
    early, script = document.split("Content-Type: text/x-shellscript\n\n")
    assert f"GPU_SOFTWARE_BUCKET={'b' * 63}\n" in early
    assert f"GPU_SOFTWARE_KEY={'k' * 68}\n" in early
    assert f"GPU_SOFTWARE_SHA256={'5' * 64}\n" in early
    assert script.splitlines()[1] == (
        "if systemctl is-failed --quiet gpu-software || ! systemctl start gpu-software; then exit 1; fi"
    )


def test_tokens_of_the_object_survive_verbatim() -> None:
    token = replace(SOFTWARE, bucket_name="${Token[AWS.Bucket.3]}", object_key="${Token[Key.4]}")
    document = render_user_data(settings(), token)
    assert "GPU_SOFTWARE_BUCKET='${Token[AWS.Bucket.3]}'\n" in document
    assert "GPU_SOFTWARE_KEY='${Token[Key.4]}'\n" in document


def test_every_file_travels_once_and_only_what_can_wait_through_s3() -> None:
    largest = replace(
        split_gpus_with_servers(), files=(*model_server_files(SERVERS), NodeFile(path="/etc/early", text="a"))
    )
    waiting = set(members(software_archive(largest.files)))
    assert {
        "usr/local/bin/gpunode",
        "usr/local/lib/gpu-cluster/gpunode/__main__.py",
        "usr/local/libexec/gpu-cluster/mount-lustre",
        "usr/local/libexec/gpu-cluster/mount-nfs",
        "usr/local/libexec/gpu-cluster/model-servers",
        "etc/gpu-cluster/haproxy.cfg",
    } <= waiting
    carried = {file.path.lstrip("/") for file in user_data_files(largest)}
    assert carried == {
        "usr/local/libexec/gpu-cluster/lib.sh",
        "usr/local/libexec/gpu-cluster/mig-apply",
        "usr/local/libexec/gpu-cluster/fetch-software",
        "etc/systemd/system/gpu-mig.service",
        "etc/systemd/system/gpu-software.service",
        "etc/systemd/system.conf.d/90-gpu-cluster.conf",
        "etc/security/limits.d/99-gpu-cluster.conf",
        "etc/systemd/system/gpu-node-boot.service.d/order.conf",
        "etc/early",
    }
    assert waiting.isdisjoint(carried)


def test_every_program_of_a_unit_is_there_and_can_be_run() -> None:
    files = {file.path: file for file in (*software_files(), *user_data_files(split_gpus_with_servers()))}
    units = [file for path, file in files.items() if path.endswith(".service")]
    programs = [word for unit in units for word in re.findall(r"^ExecStart=-?(\S+)", unit.text, re.MULTILINE)]
    assert len(programs) >= len(units) >= 7
    assert [files[program].mode for program in programs] == [0o755] * len(programs)


def test_archives_have_the_same_bytes_on_every_machine() -> None:
    content = archive([NodeFile(path="/etc/x", text="hello\n"), NodeFile(path="/bin/y", text="", mode=0o755)])
    # A tar of the ustar format without times, owners or compression: 512-byte blocks, padded to 10,240 bytes.
    assert len(content) == 10_240
    assert hashlib.sha256(content).hexdigest() == RECORDED
    for member in members(content).values():
        assert (member.mtime, member.uid, member.gid, member.uname) == (0, 0, 0, "")


def test_another_process_makes_the_same_archive() -> None:
    code = "import hashlib; from cdk_gpu_clusters.node.software import *\nprint(hashlib.sha256(software_archive()).hexdigest())"
    environment = {"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": "77", "TZ": "Asia/Tokyo"}
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment)  # fmt: skip
    assert done.stdout.strip() == hashlib.sha256(software_archive()).hexdigest()


def test_no_command_comes_before_the_modules_that_it_imports() -> None:
    with tarfile.open(fileobj=io.BytesIO(software_archive())) as tar:
        names = tar.getnames()
    modules = [names.index(name) for name in names if f"/{name}".startswith(GPUNODE_FOLDER)]
    assert max(modules) < names.index("usr/local/bin/gpunode")


def test_fleets_without_late_files_of_their_own_have_the_same_archive() -> None:
    assert software_archive([NodeFile(path="/etc/x", text="a")]) == software_archive()
    own = members(software_archive([NodeFile(path="/etc/x", text="a", mode=0o600, early=False)]))
    assert own.keys() - members(software_archive()).keys() == {"etc/x"}
    assert own["etc/x"].mode == 0o600


def test_what_does_not_fit_is_refused_with_the_way_out() -> None:
    big = settings(files=(NodeFile(path="/etc/x", text=NOISE),))
    [finding] = check_user_data(rendered(big))
    assert finding.id == "GPU-UD-001"
    assert "early=False" in str(finding.fix)
    waits = settings(files=(NodeFile(path="/etc/x", text=NOISE, early=False),))
    assert check_user_data(rendered(waits)) == []


# Text that no compression makes small.
NOISE = "".join(hashlib.sha256(str(number).encode()).hexdigest() for number in range(500))
# Of the two files above; a change of it gives every fleet that uses S3 a new object.
RECORDED = "f31ff8d94c6cdd1be2224bbf72b405b69b832136a544c8df7670d968412bb616"
