"""A node with everything at once: split GPUs, a file system, a local disk, software from S3, and model servers."""

from __future__ import annotations

import email
import re
from pathlib import Path

import cdk_gpu_clusters.node
from cdk_gpu_clusters import InferenceFleet, MigLayout, ModelServer
from nodebox.disks import local_disks
from nodebox.lab import Lab
from nodebox.node import Node
from stack_fixtures import Site

COUNT = 7
OF_PARALLELCLUSTER = "gpu-lustre-efa.service"
UNITS = Path(cdk_gpu_clusters.node.__file__).parent / "files"


class Lustre:
    """A file system that is there already."""

    dns_name, mount_name = "fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com", "abcdbev"


def chat(site: Site) -> InferenceFleet:
    return InferenceFleet(
        site.stack, "Chat", vpc=site.vpc, vpc_subnets=site.one_subnet, instance_type="p5.4xlarge",
        mig=MigLayout(["1g.10gb"] * COUNT), server=ModelServer(image="vllm/vllm-openai:v0.11.0"), min_node_count=1,
        mounts={"/fsx": Lustre()}, scratch=True, plain_http=True,
    )  # fmt: skip


def test_one_model_server_answers_on_each_mig_slice_and_what_systemd_and_cloud_init_read_is_without_fault(
    lab: Lab,
) -> None:
    """The node has every unit of the library but that of ParallelCluster; something wrong is found beside them."""
    with (
        local_disks(lab.directory()) as disks,
        lab.node(chat, gpu="H100-80GB", gpu_count=1, binds=disks) as node,
    ):
        node.write("/root/config", _cloud_config(node))
        node.write("/root/wrong-config", "#cloud-config\nbootcmd: [{}]\n")
        node.write("/etc/systemd/system/wrong.service", "[Service]\nExecStart=/usr/bin/true\nRestrat=no\n")
        node.power_on()
        node.ready()
        node.in_service()
        answers = {node.run("curl -s http://127.0.0.1:8080/").stdout for _ in range(2 * COUNT)}
        slices = {found[0] for one in answers if (found := re.findall(r"device=(MIG-[0-9-]+)", one))}
        assert slices == {f"MIG-0-{number}" for number in range(COUNT)}
        assert node.sightings()["docker"].startswith(f"{COUNT} MIG devices")
        for verdict in (_cloud_config_faults, _unit_faults):
            assert verdict(node, wrong=False) == ""
            assert verdict(node, wrong=True) != ""


def _cloud_config(node: Node) -> str:
    parts = email.message_from_string(node.metadata.user_data).walk()
    (config,) = [str(part.get_payload()) for part in parts if part.get_content_type() == "text/cloud-config"]
    return config


def _cloud_config_faults(node: Node, *, wrong: bool) -> str:
    file = "/root/wrong-config" if wrong else "/root/config"
    done = node.run(f"cloud-init schema --config-file {file}", check=False)
    return "" if done.returncode == 0 and "Valid" in done.stdout else done.stdout + done.stderr


def _unit_faults(node: Node, *, wrong: bool) -> str:
    node.write(f"/etc/systemd/system/{OF_PARALLELCLUSTER}", (UNITS / OF_PARALLELCLUSTER).read_text())
    found = node.run("cd /etc/systemd/system && ls gpu-*.service gpu-*.timer").stdout.split()
    assert set(found) == {path.name for path in UNITS.iterdir() if path.suffix in (".service", ".timer")}
    names = ["wrong.service"] if wrong else [name.replace("@.", "@0.") for name in found]
    done = node.run(f"systemd-analyze --man=no verify {' '.join(names)}", check=False)
    return done.stdout + done.stderr + ("" if done.returncode == 0 else f"status {done.returncode}")
