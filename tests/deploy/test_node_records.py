"""Events and metrics of a node reach the log group of its fleet: its own software, the real AWS CLI, an emulated AWS.

The AWS CLI is the one that CDK ships for its own use: the images of nodes have their own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from cdk_gpu_clusters.node import gpunode
from services.programs import install_aws_cli

INSTANCE = "i-0123456789abcdef0"
GROUP = "/gpu-cluster/trainers"
ELSEWHERE = "http://127.0.0.1:9"  # the discard port: nobody listens


@pytest.fixture(scope="module")
def aws_cli(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the program `aws`."""
    return install_aws_cli(tmp_path_factory.mktemp("aws-cli")).parent


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


class Sender:
    """A node in a folder, and its log group.

    Attributes:
        endpoint: Where it looks for AWS.
    """

    def __init__(self, root: Path, aws_cli: Path, endpoint: str) -> None:
        self.root, self.aws_cli, self.endpoint = root, aws_cli, endpoint
        self.logs = boto3.client(
            "logs", region_name="us-east-2", endpoint_url=endpoint,
            aws_access_key_id="testing", aws_secret_access_key="testing",
        )  # fmt: skip
        self.logs.create_log_group(logGroupName=GROUP)
        settings = {
            "GPU_LOG_GROUP": GROUP,
            "GPU_REGION": "us-east-2",
            "GPU_ACCELERATOR": "gpu",
            "GPU_FLEET": "trainers",
        }
        self.write("etc/gpu-cluster/node.env", "".join(f"{key}={value}\n" for key, value in settings.items()))
        self.write("proc/sys/kernel/random/boot_id", "boot-1\n")
        self.write("tools/nvidia-smi", "#!/bin/sh\necho '0, 97, 40960, 410.5, 55, 81920'\n").chmod(0o755)

    def write(self, path: str, text: str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def python(self, code: str) -> subprocess.CompletedProcess[str]:
        """Run a line of Python with the node's software, as the node `INSTANCE`."""
        start = (
            "import sys\nfrom gpunode import cli, events, node\n"
            f"cli.this_node = lambda: node.Node(s := node.read_settings(), node.Metadata(), {INSTANCE!r}, "
            "node.Aws(s.text('region')))\n"
        )
        environment = {
            **os.environ,
            "PATH": f"{self.root}/tools:{self.aws_cli}:/usr/bin:/bin",
            "PYTHONPATH": str(Path(gpunode.__file__).parents[1]),
            "GPU_CLUSTER_ROOT": str(self.root),
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
        }
        return subprocess.run(
            [sys.executable, "-c", start + code],
            env=environment, check=False, capture_output=True, text=True, timeout=120,
        )  # fmt: skip

    def tell(self, *numbers: int) -> None:
        done = self.python(f"for n in {numbers}: events.Events({INSTANCE!r}).write('test', 'told', str(n))")
        assert done.returncode == 0, done.stderr

    def minute(self) -> subprocess.CompletedProcess[str]:
        """What the timer runs once a minute."""
        return self.python("cli.main(['metrics']); sys.exit(cli.main(['ship']))")

    def arrived(self, stream: str = INSTANCE) -> list[dict[str, Any]]:
        answer = self.logs.get_log_events(logGroupName=GROUP, logStreamName=stream, startFromHead=True)
        return [json.loads(event["message"]) for event in answer["events"]]

    def numbers(self) -> list[int]:
        return [int(event["reason"]) for event in self.arrived() if event["stage"] == "test"]


@pytest.fixture
def sender(tmp_path: Path, aws_cli: Path, endpoint: str) -> Iterator[Sender]:
    made = Sender(tmp_path, aws_cli, endpoint)
    yield made
    made.logs.delete_log_group(logGroupName=GROUP)


def test_events_and_metrics_arrive_in_their_streams(sender: Sender) -> None:
    sender.tell(*range(20))
    assert sender.minute().returncode == 0
    assert sender.numbers() == list(range(20))
    [metrics] = sender.arrived(f"{INSTANCE}/metrics")
    assert (metrics["Fleet"], metrics["GpuUtilization"]) == ("trainers", 97)
    assert metrics["_aws"]["CloudWatchMetrics"][0]["Namespace"] == "GpuCluster"


def test_nothing_is_lost_or_doubled_while_cloudwatch_logs_is_away(sender: Sender) -> None:
    sender.tell(0)
    assert sender.minute().returncode == 0
    there, sender.endpoint = sender.endpoint, ELSEWHERE
    sender.tell(1, 2)
    failed = sender.minute()
    assert failed.returncode == 75
    assert "the records stay on this node for now" in failed.stderr
    assert sender.numbers() == [0]
    sender.endpoint = there
    sender.tell(3)
    assert sender.minute().returncode == 0
    assert sender.numbers() == [0, 1, 2, 3]
    assert len(sender.arrived(f"{INSTANCE}/metrics")) == 3


def test_a_log_group_that_comes_late_gets_everything(sender: Sender) -> None:
    sender.logs.delete_log_group(logGroupName=GROUP)
    sender.tell(0)
    assert sender.minute().returncode == 75
    sender.logs.create_log_group(logGroupName=GROUP)
    assert sender.minute().returncode == 0
    assert sender.numbers() == [0]
