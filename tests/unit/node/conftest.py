"""A training node in a temporary directory: user data installed for real, AWS, metadata and devices faked."""

from __future__ import annotations

import email
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import jmespath  # type: ignore[import-untyped]
import pytest

from efa_sysfs import add_device

INSTANCE = "i-0123456789abcdef0"

# The AWS CLI: hands its arguments to the account behind the metadata server, and fails as the CLI does.
FAKE_AWS = """#!/bin/bash
if answer=$(printf '%s\\0' "$@" | curl -s --fail-with-body --data-binary @- "$GPU_CLUSTER_IMDS/aws"); then
  [[ -z $answer ]] || printf '%s\\n' "$answer"
else
  printf '%s\\n' "$answer" >&2
  exit 254
fi
"""


@dataclass
class Account:
    """The AWS account that a node sees: what it holds, and every call made to it."""

    group: str | None = "trainers-asg"
    lifecycle: str = "Pending:Wait"
    members: list[tuple[str, str, str]] = field(default_factory=list)
    arrivals: list[tuple[str, str, str]] = field(default_factory=list)
    denied: dict[str, int] = field(default_factory=dict)
    streams: list[tuple[str, str]] = field(default_factory=list)
    logged: list[dict[str, Any]] = field(default_factory=list)
    calls: list[tuple[str, dict[str, list[str]]]] = field(default_factory=list)
    objects: dict[tuple[str, str], bytes] = field(default_factory=dict)
    bundles: dict[str, bytes] = field(default_factory=dict)

    def call(self, arguments: list[str]) -> str:
        """Do one CLI call; --query and --output text behave as in the AWS CLI."""
        operation, options, name = arguments[1], dict[str, list[str]](), ""
        for argument in arguments[2:]:
            if argument.startswith("--"):
                name = argument
                options[name] = []
            else:
                options[name].append(argument)
        self.calls.append((operation, options))
        self.denied[operation] = self.denied.get(operation, 0) - 1
        if self.denied[operation] >= 0:
            raise PermissionError("An error occurred (AccessDenied) when calling it: not yet")
        answer = getattr(self, operation.replace("-", "_"))(options)
        if options.get("--output") == ["json"]:
            found = jmespath.search(options.get("--query", ["@"])[0], answer)
            return "" if found is None else json.dumps(found)
        rows = jmespath.search(options.get("--query", ["@"])[0], answer) or []
        rows = rows if rows and isinstance(rows[0], list) else [rows] if rows else []
        return "\n".join("\t".join(map(str, row)) for row in rows)

    def made(self, operation: str) -> list[dict[str, list[str]]]:
        """The options of each call of `operation`."""
        return [options for name, options in self.calls if name == operation]

    def describe_auto_scaling_instances(self, _: dict[str, list[str]]) -> dict[str, Any]:
        row = {"AutoScalingGroupName": self.group, "LifecycleState": self.lifecycle}
        return {"AutoScalingInstances": [row] if self.group else []}

    def complete_lifecycle_action(self, _: dict[str, list[str]]) -> None:
        self.lifecycle = "InService"

    def record_lifecycle_action_heartbeat(self, _: dict[str, list[str]]) -> None:
        assert self.lifecycle == "Pending:Wait", "ValidationError: no active lifecycle action"

    def describe_auto_scaling_groups(self, _: dict[str, list[str]]) -> dict[str, Any]:
        self.members, self.arrivals = [*self.members, *self.arrivals[:1]], self.arrivals[1:]
        rows = [{"InstanceId": id_, "LifecycleState": state} for id_, _, state in self.members]
        return {"AutoScalingGroups": [{"Instances": rows}]}

    def describe_instances(self, _: dict[str, list[str]]) -> dict[str, Any]:
        rows = [{"InstanceId": id_, "PrivateIpAddress": address} for id_, address, _ in self.members]
        return {"Reservations": [{"Instances": [row]} for row in rows]}

    def describe_instance_topology(self, options: dict[str, list[str]]) -> dict[str, Any]:
        # The last of the fleet is a neighbour of the first.
        nodes = {self.members[0][0]: ["nn-1", "nn-2"], self.members[-1][0]: ["nn-1", "nn-2"]}
        rows = [
            {"InstanceId": id_, "NetworkNodes": nodes.get(id_, ["nn-1", "nn-9"])} for id_ in options["--instance-ids"]
        ]
        return {"Instances": rows}

    def get_object(self, options: dict[str, list[str]]) -> None:
        [bucket], [key, file] = options["--bucket"], options["--key"]
        if (bucket, key) not in self.objects:
            raise PermissionError("An error occurred (NoSuchKey): The specified key does not exist.")
        Path(file).write_bytes(self.objects[bucket, key])

    def cp(self, options: dict[str, list[str]]) -> None:
        file, address = options["--only-show-errors"]
        self.bundles[address] = Path(file).read_bytes()

    def create_log_stream(self, options: dict[str, list[str]]) -> None:
        stream = (options["--log-group-name"][0], options["--log-stream-name"][0])
        if stream in self.streams:
            raise PermissionError("An error occurred (ResourceAlreadyExistsException)")
        self.streams.append(stream)

    def put_log_events(self, options: dict[str, list[str]]) -> None:
        stream = (options["--log-group-name"][0], options["--log-stream-name"][0])
        if stream not in self.streams:
            raise PermissionError("An error occurred (ResourceNotFoundException)")
        events = json.loads(Path(options["--log-events"][0].removeprefix("file://")).read_text())
        self.logged += [json.loads(event["message"]) for event in events]


class Metadata(BaseHTTPRequestHandler):
    """IMDSv2, which gives no answer without a session token, and the account."""

    wbufsize = -1  # one packet per answer: two would wait for a delayed acknowledgement
    values: ClassVar[dict[str, str]] = {}
    account: ClassVar[Account] = Account()

    def _answer(self, status: int, body: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def do_PUT(self) -> None:
        good = self.path == "/latest/api/token" and self.headers.get("X-aws-ec2-metadata-token-ttl-seconds")
        self._answer(200 if good else 400, "token-1" if good else "")

    def do_GET(self) -> None:
        value = self.values.get(self.path.removeprefix("/latest/meta-data/"))
        if self.headers.get("X-aws-ec2-metadata-token") != "token-1":
            self._answer(401)
        elif value is None:
            self._answer(404)
        else:
            self._answer(200, value)

    def do_POST(self) -> None:
        arguments = self.rfile.read(int(self.headers["Content-Length"])).decode().split("\0")[:-1]
        try:
            self._answer(200, self.account.call(arguments))
        except PermissionError as error:
            self._answer(400, str(error))

    def log_request(self, *_: Any) -> None:
        """Keep the test output quiet."""


def parts_of(document: str) -> list[tuple[str, str]]:
    """The parts of a MIME document: content type and body."""
    message = email.message_from_string(document)
    return [(part.get_content_type(), str(part.get_payload())) for part in message.walk() if not part.is_multipart()]


def cloud_config_of(document: str) -> dict[str, Any]:
    """The parsed cloud-config that the library writes."""
    from ruamel.yaml import YAML

    [config] = [body for kind, body in parts_of(document)[:1] if kind == "text/cloud-config"]
    parsed: dict[str, Any] = YAML(typ="safe").load(config)
    return parsed


def install(document: str, root: Path) -> None:
    """Do under `root` what cloud-init does with the document at `/`."""
    config = cloud_config_of(document)
    for per, frequency, _, *command in config["bootcmd"]:
        assert (per, frequency) == ("cloud-init-per", "instance")
        command[-1] = command[-1].replace("-xzC / ", f"-xzC {root} ").replace(" /etc/", f" {root}/etc/")
        command[-1] = command[-1].replace(">/etc/", f">{root}/etc/").replace("systemctl", "true")
        subprocess.run(command, check=True)
    for file in config["write_files"]:
        path = root / file["path"].lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file["content"])


def _impatient(text: str) -> str:
    """A file of a node; the launcher of its software lets that sleep for moments only."""
    return text.replace("import sys\nif ", "import sys, time\nnap = time.sleep\ntime.sleep = lambda _: nap(0.02)\nif ")


class Node:
    """One node: its root directory, its devices, the AWS account it sees, and its scripts."""

    def __init__(self, directory: Path, imds: str) -> None:
        self.root = directory / "root"
        self.tools = directory / "tools"
        self.account = Metadata.account = Account()
        self.root.mkdir()
        self.tools.mkdir()
        self.tool("aws", FAKE_AWS)
        self.tool("sleep", "#!/bin/sh\nexec /bin/sleep 0.02\n")
        self.write("dev/console", "")
        self.write("proc/uptime", "100.00 50.00\n")
        self.write("proc/sys/kernel/random/boot_id", "boot-1\n")
        self.environment = {
            "PATH": f"{self.tools}:{os.environ['PATH']}",
            "GPU_CLUSTER_ROOT": str(self.root),
            "GPU_CLUSTER_IMDS": imds,
            "GPU_CLUSTER_PYTHON": sys.executable,
        }

    def write(self, path: str, text: str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def tool(self, name: str, script: str) -> None:
        (self.tools / name).write_text(script)
        (self.tools / name).chmod(0o755)

    def efa_devices(self, *names: str) -> None:
        for name in names:
            add_device(self.root, name)

    def gpus(self, *cells: str, late: int = 0) -> None:
        """nvidia-smi that prints one row per GPU, after `late` calls that fail as before the driver is loaded."""
        # `nounits`: the numbers alone.
        rows = "\n".join(f"{index}, {cell.removesuffix(' MiB')}" for index, cell in enumerate(cells))
        count = self.root / "nvidia-smi-calls"
        self.tool(
            "nvidia-smi",
            f"#!/bin/bash\necho >>{count}\nif (($(wc -l <{count}) <= {late})); then\n"
            "  echo 'NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver.'\n  exit 9\nfi\n"
            f"cat <<'END'\n{rows}\nEND\n",
        )

    def install(self, **settings: Any) -> None:
        # The library itself does not import on Python 3.9, on which the tests of the node software run too.
        from cdk_gpu_clusters.node.settings import NodeSettings
        from cdk_gpu_clusters.node.software import SoftwareObject, software_files
        from cdk_gpu_clusters.node.user_data import render_user_data

        given = NodeSettings(fleet_name="trainers", **settings)
        self.unpack(render_user_data(given, SoftwareObject(bucket_name="b", object_key="k", sha256="s")))
        for file in software_files(given.files):
            self.write(file.path.lstrip("/"), _impatient(file.text)).chmod(file.mode)

    def unpack(self, document: str, root: Path | None = None) -> None:
        """Do what cloud-init does with a document before it runs scripts."""
        install(document, root or self.root)

    def start(self, document: str) -> subprocess.CompletedProcess[str]:
        """Run the library's own script in a document."""
        _, script = parts_of(document)[1]
        return subprocess.run(
            ["sh", "-c", script],
            env=self.environment, check=False, capture_output=True, text=True, timeout=60,
        )  # fmt: skip

    def run(self, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [shutil.which("bash") or "bash", str(self.root / script), *arguments],
            env=self.environment, check=False, capture_output=True, text=True, timeout=20,
        )  # fmt: skip

    def boot(self) -> tuple[int, dict[str, Any]]:
        """Run the boot checks: exit status and result file."""
        done = self.gpunode("boot")
        assert not done.stderr, done.stderr
        result: dict[str, Any] = json.loads((self.root / "var/lib/gpu-cluster/boot.json").read_text())
        assert [json.loads(line) for line in done.stdout.splitlines()][: len(result["events"])] == result["events"]
        return done.returncode, result

    def gpunode(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the node's software, on the Python that runs these tests."""
        return self.run("usr/local/bin/gpunode", *arguments)

    def peers(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run("usr/local/bin/gpu-peers", *arguments)


@pytest.fixture(scope="session")
def imds_server() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Metadata)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def imds(imds_server: str) -> dict[str, str]:
    """The metadata of the instance, to be changed by a test."""
    Metadata.values = {"instance-id": INSTANCE, "placement/region": "us-east-2"}
    return Metadata.values


@pytest.fixture(autouse=True)
def no_child_left() -> Iterator[None]:
    """End what a test left running: the node software leaves slow clients of a driver alone."""
    yield
    from cdk_gpu_clusters.node.gpunode import command

    for child in command._stuck.values():
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(child.pid, 0)
    command._stuck.clear()


@pytest.fixture
def node(tmp_path: Path, imds_server: str, imds: dict[str, str]) -> Node:
    return Node(tmp_path, imds_server)


@pytest.fixture
def gpu_node(node: Node) -> Node:
    """A healthy node with two GPUs and two EFA devices, launching under the hook `ready`."""
    node.gpus("GPU-aaaa, 81559 MiB", "GPU-bbbb, 81559 MiB")
    node.tool("fi_info", "#!/bin/sh\necho 'provider: efa'\n")
    node.efa_devices("rdmap16s27", "efa_1")
    return node


@pytest.fixture
def gpu_settings() -> dict[str, Any]:
    return {
        "accelerator_kind": "gpu",
        "accelerator_count": 2,
        "efa_interface_count": 2,
        "launch_hook_name": "ready",
        "terminate_hook_name": "drained",
        "log_group_name": "/gpu-cluster/trainers",
    }
