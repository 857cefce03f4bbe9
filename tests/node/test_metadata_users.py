"""Who reaches the instance metadata service on a node: the rules of routing of a real kernel."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "constructs/cdk_gpu_clusters/node/scripts"
SERVICE, NOBODY, ALLOWED = "169.254.169.254", 65534, 1234
ASK = f"exec 3<>/dev/tcp/{SERVICE}/80 && printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3 && head -n 1 <&3"


class Machine:
    """A node in a network of its own; the metadata service is at the other end of its wire."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._node, self._peer = _network(), _network()
        self.run("ip", "link", "set", "lo", "up")
        self.run("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "wire", "netns", str(self._peer.pid))
        self.run("ip", "address", "add", "10.77.0.2/24", "dev", "eth0")
        self.run("ip", "link", "set", "eth0", "up")
        self.run("ip", "route", "add", SERVICE, "dev", "eth0")
        for words in (f"address add {SERVICE}/32 dev wire", "link set wire up", "route add 10.77.0.0/24 dev wire"):
            subprocess.run([*_inside(self._peer), "ip", *words.split()], check=True)
        server = [*_inside(self._peer), "/usr/bin/python3", "-m", "http.server", "80", "--bind", SERVICE]
        self._server = subprocess.Popen(server, cwd=root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._pods: list[subprocess.Popen[bytes]] = []

    def close(self) -> None:
        for process in (self._server, self._node, self._peer, *self._pods):
            process.kill()
            process.wait()

    def run(self, *command: str) -> None:
        subprocess.run([*_inside(self._node), *command], check=True)

    def answers_travel(self, hops: int) -> None:
        """As EC2 does by the hop limit of an instance."""
        text = f"echo {hops} > /proc/sys/net/ipv4/ip_default_ttl"
        subprocess.run([*_inside(self._peer), "sh", "-c", text], check=True)

    def answers_pod(self) -> bool:
        """Whether the service answers root in a pod with a network of its own, for which the node forwards."""
        pod = _network()
        self._pods.append(pod)
        self.run("ip", "link", "add", "pod", "type", "veth", "peer", "name", "eth0", "netns", str(pod.pid))
        self.run("ip", "address", "add", "10.88.0.1/24", "dev", "pod")
        self.run("ip", "link", "set", "pod", "up")
        self.run("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        for words in ("address add 10.88.0.2/24 dev eth0", "link set eth0 up", "route add default via 10.88.0.1"):
            subprocess.run([*_inside(pod), "ip", *words.split()], check=True)
        back = ["ip", "route", "replace", "10.88.0.0/24", "via", "10.77.0.2"]
        subprocess.run([*_inside(self._peer), *back], check=True)
        asked = subprocess.run([*_inside(pod), "timeout", "3", "bash", "-c", ASK], capture_output=True, check=False)
        return b"200" in asked.stdout

    def limit(self, users: str) -> str:
        """Run the program of the node, and return the end of what it wrote."""
        settings = f"GPU_METADATA_USERS='{users}'\nGPU_BOOT_DEADLINE=0\n"
        (self._root / "etc/gpu-cluster/node.env").write_text(settings, encoding="ascii")
        environment = {**os.environ, "GPU_CLUSTER_ROOT": str(self._root)}
        program = [*_inside(self._node), "bash", str(SCRIPTS / "limit-metadata.sh")]
        return subprocess.run(program, env=environment, capture_output=True, text=True, check=False).stdout

    def answers(self, user: int) -> bool:
        """Whether the service answers a program of a user."""
        as_user = ("setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups")
        asked = subprocess.run(
            [*_inside(self._node), *as_user, "timeout", "5", "bash", "-c", ASK], capture_output=True, check=False
        )
        return b"200" in asked.stdout


def _network() -> subprocess.Popen[bytes]:
    process = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
    ours = Path("/proc/self/ns/net").readlink()
    while Path(f"/proc/{process.pid}/ns/net").readlink() == ours:
        time.sleep(0.01)
    return process


def _inside(network: subprocess.Popen[bytes]) -> tuple[str, ...]:
    return "nsenter", f"--net=/proc/{network.pid}/ns/net", "--"


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    for folder in ("etc/gpu-cluster", "var/lib/gpu-cluster", "dev", "proc/sys/kernel/random"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/random/boot_id").write_text("boot\n", encoding="ascii")
    programs = tmp_path / "usr/local/libexec/gpu-cluster"
    programs.mkdir(parents=True)
    for name in ("lib.sh", "storage.sh"):
        shutil.copy(SCRIPTS / name, programs)
    made = Machine(tmp_path)
    try:
        deadline = time.monotonic() + 10
        while not made.answers(0):
            assert time.monotonic() < deadline, "the service does not answer"
        yield made
    finally:
        made.close()


def test_an_unprivileged_job_cannot_take_the_role_of_its_node(machine: Machine) -> None:
    assert machine.answers(NOBODY), "the attack: every local user gets the credentials"
    assert '"state":"ok"' in machine.limit("root")
    assert not machine.answers(NOBODY)
    assert machine.answers(0)


@pytest.mark.parametrize("hops", [1, 2])
def test_a_pod_cannot_take_the_role_of_its_node(machine: Machine, hops: int) -> None:
    """With two hops, the former limit of nodes of EKS, the attack succeeds; `test_secure_by_default` asks for one."""
    machine.answers_travel(hops)
    assert machine.answers(0)
    assert machine.answers_pod() is (hops == 2)


def test_the_users_of_the_setting_reach_the_service(machine: Machine) -> None:
    machine.limit(f"root {ALLOWED}")
    assert [machine.answers(user) for user in (0, ALLOWED, ALLOWED + 1, NOBODY)] == [True, True, False, False]


def test_the_limit_may_be_set_again(machine: Machine) -> None:
    machine.limit("root")
    assert '"state":"ok"' in machine.limit(f"root {ALLOWED}")
    assert machine.answers(ALLOWED)
    assert not machine.answers(NOBODY)


def test_an_unknown_user_fails_the_boot_and_opens_nothing(machine: Machine) -> None:
    assert "there is no user ghost on this node" in machine.limit("root ghost")
    assert not machine.answers(NOBODY)


def test_a_user_who_makes_a_namespace_stays_outside(machine: Machine) -> None:
    machine.limit("root")
    program = [
        "setpriv",
        f"--reuid={NOBODY}",
        f"--regid={NOBODY}",
        "--clear-groups",
        "unshare",
        "--user",
        "--map-root-user",
    ]
    asked = subprocess.run(
        [*_inside(machine._node), *program, "timeout", "5", "bash", "-c", ASK], capture_output=True, check=False
    )
    assert b"200" not in asked.stdout
