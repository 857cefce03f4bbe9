"""`ray-node`, run for real with a `ray` that says how it was started: which node becomes the head, and with what."""

from __future__ import annotations

import shlex
import socket
from collections.abc import Iterator
from typing import Any

import pytest

SCRIPT = "usr/local/libexec/gpu-cluster/ray-node"
OWN, FIRST, LAST = "127.77.0.5", "127.77.0.4", "127.77.0.6"


@pytest.fixture
def ray_node(node: Any, imds: dict[str, str]) -> Any:
    """A node with four GPUs between two others, whose address is known."""
    imds["local-ipv4"] = OWN
    node.install(accelerator_kind="gpu", accelerator_count=4)
    node.write("run/.keep", "")
    node.tool("gpu-peers", f'#!/bin/sh\nexec bash {node.root}/usr/local/bin/gpu-peers "$@"\n')
    node.account.lifecycle = "InService"
    members(node, OWN, LAST)
    program = node.root / "ray"
    program.write_text('#!/bin/sh\necho "$@"\n')
    program.chmod(0o755)
    configure(node, program=str(program))
    node.environment["GPU_RAY_QUIET_SECONDS"] = "0"
    return node


def configure(node: Any, *, head: str = "", program: str = "") -> None:
    node.write(
        "etc/gpu-cluster/ray.env", f"RAY_PROGRAM={shlex.quote(program or str(node.root / 'ray'))}\nRAY_HEAD={head}\n"
    )


def members(node: Any, *addresses: str) -> None:
    ids = {OWN: "i-0123456789abcdef0"}
    node.account.members = [
        (ids.get(one, f"i-0aaaaaaaaaaaaaa{one[-1]}{one[-1]}"), one, "InService") for one in addresses
    ]


def started(node: Any) -> list[str]:
    """The arguments with which Ray is started, after the head was found."""
    found = node.run(SCRIPT, "find")
    assert found.returncode == 0, found.stderr
    done = node.run(SCRIPT, "start")
    assert done.returncode == 0, done.stderr
    return str(done.stdout).split()


@pytest.fixture
def head_elsewhere() -> Iterator[None]:
    """A head that answers on the last node."""
    with socket.create_server((LAST, 6379)):
        yield


COMMON = ["start", f"--node-ip-address={OWN}", "--num-gpus=4", "--disable-usage-stats", "--block"]
AS_HEAD = ["--head", "--port=6379", "--dashboard-host=127.0.0.1"]


def test_the_first_node_becomes_the_head_where_none_answers(ray_node: Any) -> None:
    assert started(ray_node) == [*COMMON, *AS_HEAD]


@pytest.mark.usefixtures("head_elsewhere")
def test_a_head_that_answers_stays_although_this_node_is_the_first(ray_node: Any) -> None:
    assert started(ray_node) == [*COMMON, f"--address={LAST}:6379"]


def test_a_node_that_is_not_the_first_waits_until_it_is(ray_node: Any) -> None:
    members(ray_node, FIRST, OWN)
    ray_node.environment["GPU_RAY_QUIET_SECONDS"] = "1"
    sleeps = ray_node.root / "sleeps"
    # Each look of the script ends with a pause; the third one finds the first node gone.
    ray_node.tool(
        "gpu-peers", f"#!/bin/sh\necho >>{sleeps}\n[ $(wc -l <{sleeps}) -ge 3 ] || echo {FIRST}\necho {OWN}\n"
    )
    ray_node.tool("sleep", "#!/bin/sh\nexec /bin/sleep 0.6\n")
    assert started(ray_node) == [*COMMON, *AS_HEAD]
    assert len(sleeps.read_text().splitlines()) >= 3, "it looked until it was the first"


def test_a_name_makes_its_node_the_head_and_others_join_it(ray_node: Any) -> None:
    configure(ray_node, head=OWN)
    assert started(ray_node) == [*COMMON, *AS_HEAD]
    configure(ray_node, head=FIRST)
    assert started(ray_node) == [*COMMON, f"--address={FIRST}:6379"]


def test_a_head_without_gpus_takes_no_tasks_and_a_worker_without_does(ray_node: Any) -> None:
    ray_node.install()
    configure(ray_node, head=OWN)
    assert started(ray_node)[-2:] == ["--dashboard-host=127.0.0.1", "--num-cpus=0"]
    configure(ray_node, head=FIRST)
    assert "--num-gpus=0" in started(ray_node)
    assert "--num-cpus=0" not in started(ray_node)


@pytest.mark.parametrize(
    ("head", "told"), [("head.invalid", "no address for the head's name head.invalid"), ("", "not known yet")]
)
def test_what_is_not_known_yet_fails_and_systemd_tries_again(ray_node: Any, head: str, told: str) -> None:
    ray_node.account.members = []
    configure(ray_node, head=head)
    done = ray_node.run(SCRIPT, "find")
    assert done.returncode == 1
    assert told in done.stderr


def test_a_node_without_ray_says_so(ray_node: Any) -> None:
    configure(ray_node, head=OWN, program="/opt/no/ray")
    assert ray_node.run(SCRIPT, "find").returncode == 0
    done = ray_node.run(SCRIPT, "start")
    assert done.returncode == 1
    assert "there is no /opt/no/ray" in done.stderr
    assert ray_node.run(SCRIPT).returncode == 1
