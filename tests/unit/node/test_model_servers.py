"""The model servers of a node: what its program does, with AWS, Docker, systemd and the devices faked."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.node.mig import mig_settings
from cdk_gpu_clusters.node.model_server import ServerSettings, model_server_files, model_server_part
from cdk_gpu_clusters.node.settings import NodeSettings, check_settings
from cdk_gpu_clusters.node.software import NodeFile
from cdk_gpu_clusters.node.storage import ScratchSettings
from cdk_gpu_clusters.node.user_data import USER_DATA_LIMIT_BYTES, check_user_data, user_data_size_bytes
from cdk_gpu_clusters.rules.mig import MigLayout, plan_mig
from cdk_gpu_clusters.rules.model_servers import ServerSlots, plan_servers
from rendered import rendered

PROGRAM = "usr/local/libexec/gpu-cluster/model-servers"
IMAGE = "123456789012.dkr.ecr.eu-west-1.amazonaws.com/team/server:1"
SECRET = "arn:aws:secretsmanager:us-east-1:123456789012:secret:hub-AbCdEf"
PARAMETER = "arn:aws:ssm:us-east-1:123456789012:parameter/models/key"
SMI = """GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-aaaa)
  MIG 3g.20gb     Device  0: (UUID: MIG-1111)
  MIG 1g.5gb      Device  1: (UUID: MIG-2222)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-bbbb)
  MIG 7g.40gb     Device  0: (UUID: MIG-3333)"""
# A program that writes down how it was called, and its standard input where it takes a password.
RECORDER = """#!/bin/bash
printf '%s\\n' "$(basename "$0")$(printf ' %s' "$@")" >>"{log}"
if [[ "$1 $2" == "image inspect" ]]; then echo '{{"Entrypoint": ["/bin/sh", "-c"], "Cmd": ["printenv"]}}'; fi
if [[ $1 == login ]]; then echo "login in $DOCKER_CONFIG" >>"{log}"; echo password >"$DOCKER_CONFIG/config.json"; fi
if [[ $1 == run ]]; then printf '%s\\0' "$@" >"{log}.run"; fi
if [[ " $* " == *" --password-stdin "* ]]; then printf 'password %s\\n' "$(cat)" >>"{log}"; fi
"""
AWS = """#!/bin/bash
printf 'aws %s\\n' "$*" >>"{log}"
case "$*" in
*get-login-password*) echo ecr-password ;;
*registry*) echo '{{"username": "me", "password": "registry-password"}}' ;;
*get-secret-value*) echo '{{"token": "hub-token", "other": "x"}}' ;;
*get-parameter*) echo stored-key ;;
*s3\\ sync*) ;;
*) exit 254 ;;
esac
"""


class Servers:
    """A node with model servers, and a log of the programs that were called on it."""

    def __init__(self, node: Any, tmp_path: Path) -> None:
        self.node = node
        self.log = tmp_path / "calls"
        for name in ("docker", "systemctl", "haproxy"):
            node.tool(name, RECORDER.format(log=self.log))
        node.tool("aws", AWS.format(log=self.log))
        node.tool("nvidia-smi", f"#!/bin/sh\ncat <<'END'\n{SMI}\nEND\n")

    def install(self, *, scratch: ScratchSettings | None = None, **changes: Any) -> None:
        given: dict[str, Any] = {
            "image": IMAGE,
            "plan": plan_servers("g6e.48xlarge", ServerSlots.tensor_parallel(4)),
            "container_port": 8000,
            "health_path": "/health",
        }
        settings = ServerSettings(**(given | changes))
        self.node.install(
            files=model_server_files(settings), user_parts=(model_server_part(settings),), scratch=scratch
        )
        script = model_server_part(settings).body.replace("/etc/gpu-cluster", f"{self.node.root}/etc/gpu-cluster")
        subprocess.run(["sh", "-c", script], check=True, env=self.node.environment)

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        self.log.write_text("")
        done: subprocess.CompletedProcess[str] = self.node.run(PROGRAM, *arguments)
        return done

    def calls(self, beginning: str) -> list[str]:
        return [line for line in self.log.read_text().splitlines() if line.startswith(beginning)]


@pytest.fixture
def servers(node: Any, tmp_path: Path) -> Servers:
    return Servers(node, tmp_path)


def test_user_data_starts_what_prepares_the_node_without_waiting(servers: Servers) -> None:
    servers.install()
    assert servers.calls("systemctl") == [
        "systemctl enable gpu-model-servers",
        "systemctl start --no-block gpu-model-servers",
    ]


def test_prepare_pulls_once_and_starts_a_server_per_group(servers: Servers) -> None:
    servers.install()
    assert servers.call("prepare").returncode == 0
    assert "aws ecr get-login-password --region eu-west-1" in servers.calls("aws")
    host = IMAGE.partition("/")[0]
    assert f"docker login --username AWS --password-stdin {host}" in servers.calls("docker")
    assert servers.calls("password") == ["password ecr-password"]
    assert servers.calls("docker pull") == [f"docker pull --quiet {IMAGE}"]
    assert servers.calls("systemctl")[-1] == (
        "systemctl start --no-block gpu-model-balancer gpu-model-server@0 gpu-model-server@1"
    )
    # The package's own service would listen, or start again after a drain.
    assert "systemctl disable --now haproxy" in servers.calls("systemctl")


@pytest.mark.parametrize(
    ("image", "login", "expected"),
    [
        ("vllm/vllm-openai:v1", "", []),
        ("vllm/vllm-openai:v1", SECRET.replace("hub", "registry"), ["docker.io"]),
        ("registry.example.com:5000/x:1", SECRET.replace("hub", "registry"), ["registry.example.com:5000"]),
        ("123456789012.dkr.ecr-fips.us-gov-west-1.amazonaws.com/x:1", "", ["123456789012.dkr.ecr-fips.us-gov-west-1.amazonaws.com"]),
        ("123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn/x:1", "", ["123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn"]),
        ("public.ecr.aws/x/y:1", "", []),
    ],
)  # fmt: skip
def test_any_registry(servers: Servers, image: str, login: str, expected: list[str]) -> None:
    servers.install(image=image, registry_login=login)
    assert servers.call("prepare").returncode == 0
    assert [line.split()[-1] for line in servers.calls("docker login")] == expected
    if login:
        assert servers.calls("password") == ["password registry-password"]
        assert "registry-password" not in "".join(servers.calls("docker"))


def test_a_server_gets_its_group_of_gpus_its_port_and_shared_memory(servers: Servers) -> None:
    servers.install(command=["--model", "/m x"], environment={"A": "b c"}, shared_memory_gib=8)
    servers.call("prepare")
    assert servers.call("run", "1").returncode == 0
    (call,) = servers.calls("docker run")
    assert '--gpus "device=4,5,6,7"' in call
    assert "--publish 127.0.0.1:9001:8000" in call
    assert "--shm-size 8g" in call
    assert "MODEL_SERVER_INDEX=1" in call
    assert call.endswith(f"{IMAGE} --model /m x")
    assert (servers.node.root / "etc/gpu-cluster/model-server.environment").read_text() == "A=b c\n"
    assert servers.calls("docker rm") == ["docker rm -f model-server-1"]


def test_servers_share_a_cache_on_the_local_disks_that_any_user_may_write(servers: Servers) -> None:
    servers.install(cache_path="/scratch/cache", scratch=ScratchSettings(disk_count=2))
    assert servers.call("prepare").returncode != 0, "the disks are not mounted: the root volume would be filled"
    servers.node.write("proc/mounts", f"/dev/md127 {servers.node.root}/scratch xfs rw 0 0\n")
    assert servers.call("prepare").returncode == 0
    assert (servers.node.root / "scratch/cache").stat().st_mode & 0o7777 == 0o1777
    assert servers.call("run", "1").returncode == 0
    (call,) = servers.calls("docker run")
    assert "--volume /scratch/cache:/scratch/cache " in call


def test_mig_slices_are_given_by_their_ids_in_the_order_of_the_list(servers: Servers) -> None:
    servers.install(plan=plan_servers("p4d.24xlarge", ServerSlots.per_mig_slice(3)))
    assert servers.call("prepare").returncode == 0
    devices = []
    for index in range(3):
        servers.call("run", str(index))
        devices.append(servers.calls("docker run")[0].partition("--gpus ")[2].split()[0])
    assert devices == ['"device=MIG-1111"', '"device=MIG-2222"', '"device=MIG-3333"']


@pytest.mark.parametrize("count", [2, 4, 56])
def test_servers_wait_until_all_slices_are_there(servers: Servers, count: int) -> None:
    servers.install(plan=plan_servers("p4d.24xlarge", ServerSlots.per_mig_slice(count)))
    done = servers.call("prepare")
    assert done.returncode != 0, "systemd tries again"
    assert f"lists 3 MIG slices, {count} are expected" in done.stderr
    assert not servers.calls("docker pull")


def test_neuron_devices_are_given_by_their_files(servers: Servers) -> None:
    servers.install(plan=plan_servers("inf2.48xlarge", ServerSlots.tensor_parallel(2)))
    servers.call("prepare")
    servers.call("run", "3")
    (call,) = servers.calls("docker run")
    assert "--device /dev/neuron6 --device /dev/neuron7" in call
    assert "--gpus" not in call


def container_output(servers: Servers) -> str:
    """What the container of the last `docker run` prints, as its shell sees the mounted file."""
    words = (servers.log.parent / "calls.run").read_text().split("\0")[:-1]
    assert words[words.index("--entrypoint") + 1] == "/bin/sh"
    (mount,) = [word for word in words if word.endswith(":/run/model-secrets:ro")]
    start = [word.replace("/run/model-secrets", mount.partition(":")[0]) for word in words[words.index(IMAGE) + 1 :]]
    return subprocess.run(["/bin/sh", *start], check=True, capture_output=True, text=True, env={}).stdout


def test_secrets_reach_the_container_through_memory_only(servers: Servers) -> None:
    servers.install(secrets={"HF_TOKEN": (SECRET, "token"), "API_KEY": (PARAMETER, "")})
    servers.call("prepare")
    assert servers.call("run", "0").returncode == 0
    (call,) = servers.calls("docker run")
    assert "--env HF_TOKEN" not in call, "docker would keep it on disk"
    assert "hub-token" not in call
    printed = container_output(servers).splitlines()
    assert {"HF_TOKEN=hub-token", "API_KEY=stored-key"} <= set(printed)
    folder = servers.node.root / "run/gpu-cluster/model-secrets"
    assert folder.stat().st_mode & 0o777 == 0o700
    holding = [path for path in servers.node.root.rglob("*") if path.is_file() and b"hub-token" in path.read_bytes()]
    assert holding == [folder / "0"]


@pytest.mark.parametrize("value", ["it's \\'quoted\\'", '$(touch /tmp/x) `id` "$HOME"', "a b\\tc\nsecond line"])
def test_a_secret_is_a_value_whatever_it_holds(servers: Servers, value: str) -> None:
    servers.install(secrets={"HF_TOKEN": (PARAMETER, "")}, command=["printenv HF_TOKEN"])
    servers.call("prepare")
    answer = servers.log.parent / "answer"
    answer.write_text(value)
    servers.node.tool("aws", f"#!/bin/sh\ncat {answer}\n")
    assert servers.call("run", "0").returncode == 0
    assert container_output(servers) == f"{value}\n"


def test_logins_are_in_memory_and_gone_when_the_image_is_there(servers: Servers) -> None:
    servers.install(registry_login=SECRET.replace("hub", "registry"))
    assert servers.call("prepare").returncode == 0
    folder = servers.node.root / "run/gpu-cluster/docker-login"
    assert servers.calls("login in") == [f"login in {folder}"]
    assert not folder.exists()


def test_a_secret_that_cannot_be_read_starts_no_server(servers: Servers) -> None:
    servers.install(secrets={"HF_TOKEN": (SECRET, "token")})
    servers.call("prepare")
    servers.node.tool("aws", "#!/bin/sh\nexit 254\n")
    assert servers.call("run", "0").returncode != 0
    assert not servers.calls("docker run")


def test_weights_are_copied_and_mounted_read_only(servers: Servers) -> None:
    path = f"{servers.node.root}/models"
    servers.install(weights_path=path, weights_uri="s3://weights/llama")
    assert servers.call("prepare").returncode == 0
    assert f"aws s3 sync --only-show-errors s3://weights/llama {path}" in servers.calls("aws")
    servers.call("run", "0")
    assert f"--volume {path}:{path}:ro" in servers.calls("docker run")[0]


def test_weights_that_are_not_mounted_yet_are_waited_for(servers: Servers) -> None:
    path = servers.node.root / "fsx/models"
    servers.install(weights_path=str(path))
    done = servers.call("prepare")
    assert done.returncode != 0
    assert "the weights are not there" in done.stderr
    path.mkdir(parents=True)
    assert servers.call("prepare").returncode == 0


def test_weights_of_the_local_disks_never_fill_the_root_volume(servers: Servers) -> None:
    scratch = ScratchSettings(disk_count=2)
    servers.install(scratch=scratch, weights_path="/scratch/llama", weights_uri="s3://weights/llama")
    servers.node.write("proc/mounts", "/dev/nvme0n1p1 / xfs rw 0 0\n/dev/md0 /scratchy xfs rw 0 0\n")
    done = servers.call("prepare")
    assert done.returncode != 0, "systemd tries again"
    assert "the local disks are not mounted at /scratch: journalctl -u gpu-scratch" in done.stderr
    assert not servers.calls("aws s3")
    servers.node.write("proc/mounts", f"/dev/md127 {servers.node.root}/scratch xfs rw 0 0\n")
    assert servers.call("prepare").returncode == 0
    assert servers.calls("aws s3") == ["aws s3 sync --only-show-errors s3://weights/llama /scratch/llama"]


def test_weights_elsewhere_do_not_wait_for_local_disks(servers: Servers) -> None:
    path = f"{servers.node.root}/scratchy"
    servers.install(scratch=ScratchSettings(disk_count=2), weights_path=path, weights_uri="s3://weights/x")
    servers.node.write("proc/mounts", "/dev/nvme0n1p1 / xfs rw 0 0\n")
    assert servers.call("prepare").returncode == 0


def test_disks_are_mounted_before_the_servers_start_at_the_first_boot_and_at_every_other() -> None:
    files, part = model_server_files(LARGEST), model_server_part(LARGEST)
    text = rendered(node_settings(files=files, user_parts=(part,), scratch=ScratchSettings(disk_count=8)))
    # cloud-init runs the parts in their order, and this line waits for the unit.
    assert 0 < text.index(" systemctl start gpu-scratch") < text.index("start --no-block gpu-model-servers")
    (unit,) = [file.text for file in files if file.path.endswith("/gpu-model-servers.service")]
    (after,) = [line for line in unit.splitlines() if line.startswith("After=")]
    assert {"gpu-scratch.service", "gpu-lustre.service"} <= set(after.removeprefix("After=").split())


def test_what_is_missing_comes_from_the_distribution(servers: Servers) -> None:
    servers.install()
    (servers.node.tools / "haproxy").unlink()
    for name in ("dnf", "apt-get"):
        servers.node.tool(name, RECORDER.format(log=servers.log))
    # Without the machine's own programs, some of which may be there.
    tools = [
        "bash",
        "sh",
        "cat",
        "cut",
        "grep",
        "sed",
        "mkdir",
        "rm",
        "date",
        "basename",
        "dirname",
        "curl",
        "python3",
        "awk",
        "wc",
        "env",
        "tr",
    ]
    for name in tools:
        found = subprocess.run(["which", name], capture_output=True, text=True, check=True).stdout.strip()
        (servers.node.tools / name).symlink_to(found)
    servers.node.environment["PATH"] = str(servers.node.tools)
    assert servers.call("prepare").returncode == 0
    assert servers.calls("dnf") == ["dnf install -y -q haproxy"]
    (servers.node.tools / "dnf").unlink()
    assert servers.call("prepare").returncode == 0
    assert servers.calls("apt-get")[-1] == "apt-get install -y -qq haproxy"


def stats(*states: tuple[str, str]) -> str:
    """HAProxy's statistics with these states and check results of the servers."""
    rows = [("node", "FRONTEND", "OPEN", ""), *(("servers", f"s{i}", *row) for i, row in enumerate(states))]
    rows.append(("servers", "BACKEND", "UP", "L7OK"))
    lines = []
    for proxy, name, state, check in rows:
        cells = [""] * 40
        cells[0], cells[1], cells[17], cells[36] = proxy, name, state, check
        lines.append(",".join(cells))
    return "# pxname,svname\n" + "\n".join(lines)


@pytest.mark.parametrize(
    ("states", "status", "text"),
    [
        ([("UP", "L7OK"), ("UP", "L7OK")], 0, "2 of 2"),
        ([("UP", "L7OK"), ("DOWN", "L4CON")], 1, "1 of 2"),
        ([("UP", "L7OK"), ("UP", "INI")], 1, "1 of 2"),  # not checked yet
        ([("UP", "L7OK"), ("UP 1/3", "L7OK")], 1, "1 of 2"),  # on its way down
        (None, 1, "0 of 2"),
    ],
)
def test_a_node_is_ready_when_every_server_answers(
    servers: Servers, states: list[tuple[str, str]] | None, status: int, text: str
) -> None:
    servers.install()
    answer = "exit 7" if states is None else f"cat <<'END'\n{stats(*states)}\nEND"
    servers.node.tool("curl", f"#!/bin/sh\n{answer}\n")
    done = servers.call("ready")
    assert done.returncode == status
    assert done.stdout.startswith(f"{text} model servers answer")


def test_the_boot_waits_for_the_servers_and_abandons_a_node_without_them(servers: Servers) -> None:
    servers.install()
    check = servers.node.root / "etc/gpu-cluster/ready.d/model-servers"
    assert check.stat().st_mode & 0o111
    check.write_text("#!/bin/sh\necho '2 of 2 model servers answer'\n")
    status, result = servers.node.boot()
    assert (status, result["state"]) == (0, "ready")
    (stage,) = [event for event in result["events"] if event["stage"] == "model-servers" and event["state"] == "ok"]
    assert stage["reason"] == "2 of 2 model servers answer"
    check.write_text("#!/bin/sh\necho '1 of 2 model servers answer'\nexit 2\n")
    status, result = servers.node.boot()
    assert (status, result["reason"]) == (1, "model-servers: 1 of 2 model servers answer")


def test_a_drain_fails_the_health_check_first_and_stops_the_balancer_softly(servers: Servers) -> None:
    servers.install()
    for name in ("curl", "sleep"):
        servers.node.tool(name, RECORDER.format(log=servers.log))
    done = servers.node.run("etc/gpu-cluster/on-drain", "autoscaling-termination")
    assert done.returncode == 0
    failed, waited, stopped = servers.log.read_text().splitlines()[-3:]
    assert failed.endswith("-X POST http://127.0.0.1:8404/drain")
    assert (waited, stopped) == ("sleep 25", "systemctl stop gpu-model-balancer")
    unit = (servers.node.root / "etc/systemd/system/gpu-model-balancer.service").read_text()
    assert "KillSignal=SIGUSR1" in unit
    assert "Restart=on-failure" in unit


def test_an_unknown_order_is_refused(servers: Servers) -> None:
    servers.install()
    assert servers.call("stop").returncode == 64


LARGEST = ServerSettings(
    image="123456789012.dkr.ecr.ap-southeast-2.amazonaws.com/team/server@sha256:" + "0123456789abcdef" * 4,
    plan=plan_servers("p4d.24xlarge", ServerSlots.per_mig_slice(56)),
    container_port=8000,
    health_path="/v1/health/ready",
    command=["--model", "/fsx/models/llama-3-8b-instruct", "--max-model-len", "8192", "--dtype", "bfloat16"],
    environment={"VLLM_LOGGING_LEVEL": "WARNING", "OMP_NUM_THREADS": "2", "HF_HUB_OFFLINE": "1"},
    secrets={"HF_TOKEN": (SECRET, "token"), "API_KEY": (PARAMETER, "")},
    registry_login=SECRET,
    weights_path="/opt/gpu-cluster/model",
    weights_uri="s3://weights-123456789012-ap-southeast-2/llama-3-8b-instruct",
    shared_memory_gib=8,
    requests_per_server=4,
)


def node_settings(**changes: Any) -> NodeSettings:
    return NodeSettings(
        fleet_name="f" * 60,
        launch_hook_name="node-ready",
        terminate_hook_name="node-drain",
        log_group_name="l" * 100,
        accelerator_kind="gpu",
        accelerator_count=8,
        **changes,
    )


def test_56_servers_leave_room_in_the_user_data() -> None:
    with_servers = rendered(node_settings(files=model_server_files(LARGEST), user_parts=(model_server_part(LARGEST),)))
    without = rendered(node_settings())
    assert len(with_servers) - len(without) < 5_500
    assert len(with_servers) < 16_384 - 4_096, "MIG and a file system come on top"
    assert check_user_data(with_servers) == [], "ARNs are no secrets"


def test_56_servers_and_the_slices_that_they_need_fit_together() -> None:
    mig = mig_settings(plan_mig("p4d.24xlarge", MigLayout(["1g.5gb"] * 7)))
    settings = node_settings(mig=mig, files=model_server_files(LARGEST), user_parts=(model_server_part(LARGEST),))
    assert USER_DATA_LIMIT_BYTES - user_data_size_bytes(rendered(settings)) > 1_000


def test_a_literal_secret_next_to_arns_is_still_found() -> None:
    settings = ServerSettings(
        image="x:1", plan=plan_servers("g5.2xlarge"), container_port=1, health_path="/",
        environment={"HF_TOKEN": "hf_abcdefgh"}, secrets={"A": (SECRET, "")},
    )  # fmt: skip
    (finding,) = check_user_data(rendered(node_settings(user_parts=(model_server_part(settings),))))
    assert finding.id == "GPU-UD-002"


@pytest.mark.parametrize(
    ("files", "count"),
    [
        ([NodeFile(path="/etc/x", text="a")], 0),
        ([NodeFile(path="etc/x", text="a")], 1),
        ([NodeFile(path="/etc/../x", text="a")], 1),
        ([NodeFile(path="/etc/x", text="caf\u00e9")], 1),
        ([NodeFile(path="/etc/x", text="${Token[AWS.Region.1]}")], 1),
        ([NodeFile(path="/etc/x", text="a"), NodeFile(path="/etc/x", text="b")], 1),
    ],
)
def test_files_that_cannot_be_put_on_a_node(files: list[NodeFile], count: int) -> None:
    found = check_settings(node_settings(files=tuple(files)))
    assert [finding.id for finding in found] == ["GPU-UD-006"] * count
