"""The users of a node, the directory, and the containers of its jobs."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.node.gpunode import accounts, directory
from cdk_gpu_clusters.node.gpunode.boot.stage import State
from cdk_gpu_clusters.node.gpunode.boot.stages import user_stages
from cdk_gpu_clusters.node.gpunode.containers import container_words
from cdk_gpu_clusters.node.gpunode.node import AwsError, Node, Settings
from watched_node import WatchedNode

ALICE = {"name": "alice-of-test", "uid": 50123, "gid": 50123, "groups": ["research-of-test"], "ssh_keys": ["ssh-ed25519 A"],
         "shell": "/bin/bash"}  # fmt: skip


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WatchedNode:
    watched = WatchedNode(tmp_path)
    monkeypatch.setenv("GPU_CLUSTER_ROOT", str(watched.root))
    monkeypatch.setenv("PATH", f"{watched.tools}:/usr/bin:/bin")
    for name in ("groupadd", "useradd", "usermod"):
        watched.tool(name, f'#!/bin/sh\necho "{name} $*" >>{watched.root}/calls\n')
    return watched


def listed(watched: WatchedNode, *users: dict[str, Any], groups: dict[str, int] | None = None) -> None:
    watched.write("etc/gpu-cluster/users.json", json.dumps({"groups": groups or {}, "users": users}))


def test_users_are_made_with_their_numbers_and_keys(watched: WatchedNode) -> None:
    (watched.root / "etc/ssh/sshd_config.d").mkdir(parents=True)
    watched.write("etc/ssh/authorized_keys.d/former", "ssh-ed25519 B\n")
    listed(watched, ALICE, groups={"research-of-test": 50200})
    verdict = accounts.probe_users(watched.node())
    assert (verdict.state, verdict.reason) == (State.OK, "1 users")
    home = "--no-create-home --home-dir /home/alice-of-test"
    assert (watched.root / "calls").read_text().splitlines() == [
        "groupadd --gid 50200 research-of-test",
        "groupadd --gid 50123 alice-of-test",
        f"useradd --uid 50123 --gid 50123 --no-user-group {home} --shell /bin/bash alice-of-test",
        "usermod --append --groups research-of-test alice-of-test",
    ]
    keys = watched.root / "etc/ssh/authorized_keys.d"
    assert {file.name: file.read_text() for file in keys.iterdir()} == {"alice-of-test": "ssh-ed25519 A\n"}
    assert "authorized_keys.d/%u" in (watched.root / "etc/ssh/sshd_config.d/10-gpu-cluster-users.conf").read_text()
    assert "try-reload-or-restart sshd" in (watched.root / "systemctl").read_text()


def test_a_number_of_the_image_is_a_located_fault(watched: WatchedNode) -> None:
    listed(watched, {**ALICE, "name": "root"})
    verdict = accounts.probe_users(watched.node())
    assert (verdict.state, verdict.reason) == (
        State.FAILED, "user root has the number 0 on this image, not 50123"
    )  # fmt: skip
    listed(watched, {**ALICE, "uid": 0})
    assert accounts.probe_users(watched.node()).reason == "0 is the number of root, not of alice-of-test"
    listed(watched, groups={"root": 50200})
    assert accounts.probe_users(watched.node()).reason == "group root has the number 0 on this image, not 50200"


def test_useradd_that_fails_says_why(watched: WatchedNode) -> None:
    watched.tool("useradd", "#!/bin/sh\necho 'cannot lock /etc/passwd' >&2\nexit 1\n")
    listed(watched, ALICE)
    assert accounts.probe_users(watched.node()).reason == "useradd alice-of-test: cannot lock /etc/passwd"


def test_a_list_that_cannot_be_read_fails_the_boot(watched: WatchedNode) -> None:
    watched.write("etc/gpu-cluster/users.json", "{")
    assert accounts.probe_users(watched.node()).state is State.FAILED


def test_stages_are_only_for_what_a_node_has(watched: WatchedNode) -> None:
    assert user_stages(Settings()) == []
    listed(watched)
    names = [stage.name for stage in user_stages(Settings({"directory_uris": "ldaps://x"}))]
    assert names == ["users", "directory"]


def node_of(watched: WatchedNode, uri: str, secret: Any = None) -> Node:
    node = watched.node(directory_uris=uri, directory_base="dc=x", directory_bind="cn=reader", directory_secret="s")

    class Secrets:
        region = ""

        def call(self, service: str, operation: str, *arguments: str, timeout_seconds: float = 60) -> Any:
            assert (service, operation, arguments) == ("secretsmanager", "get-secret-value", ("--secret-id", "s"))
            if secret is None:
                raise AwsError("AccessDeniedException")
            return {"SecretString": secret}

    return Node(node.settings, node.metadata, node.instance_id, Secrets())  # type: ignore[arg-type]


def test_a_directory_that_does_not_answer_is_named_and_hangs_nothing(watched: WatchedNode) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    verdict = directory.probe_directory(node_of(watched, f"ldaps://127.0.0.1:{port}"))
    assert verdict.state is State.WAITING
    assert verdict.reason == f"ldaps://127.0.0.1:{port} does not answer: Connection refused"
    assert "security group" in verdict.fix


@pytest.fixture
def server() -> Any:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"ldaps://127.0.0.1:{server.getsockname()[1]}"


def test_a_secret_that_may_not_be_read_is_named(
    watched: WatchedNode, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory, "_PROGRAM", Path("/bin/sh"))
    verdict = directory.probe_directory(node_of(watched, server))
    assert verdict.state is State.WAITING
    assert verdict.reason == "the password of the directory: AccessDeniedException"
    monkeypatch.setattr(directory, "_PROGRAM", Path("/no/sssd"))
    assert directory.probe_directory(node_of(watched, server, "x")).reason == "the image has no SSSD"


def test_sssd_is_started_once_with_a_file_for_root_alone(
    watched: WatchedNode, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory, "_PROGRAM", Path("/bin/sh"))
    watched.write("etc/nsswitch.conf", "passwd: files systemd\ngroup: files\nshadow: files sss\nhosts: files dns\n")
    watched.tool("systemctl", f'#!/bin/sh\necho "$*" >>{watched.root}/systemctl\n'
                              'case $1 in show) echo ActiveState=active;; esac\n')  # fmt: skip
    node = node_of(watched, f"ldaps://127.0.0.1:1 {server}", '{"username": "reader", "password": "pass word"}')
    verdict = directory.probe_directory(node)
    assert (verdict.state, verdict.reason) == (State.OK, "1 of 2 servers of the directory answer")
    conf = watched.root / "etc/sssd/sssd.conf"
    assert conf.stat().st_mode & 0o777 == 0o600
    assert "ldap_default_authtok = pass word\n" in conf.read_text()
    assert f"ldap_uri = ldaps://127.0.0.1:1, {server}\n" in conf.read_text()
    assert (watched.root / "etc/nsswitch.conf").read_text() == (
        "passwd: files systemd sss\ngroup: files sss\nshadow: files sss\nhosts: files dns\n"
    )
    directory.probe_directory(node)
    assert (watched.root / "systemctl").read_text().count("restart sssd") == 1


@pytest.mark.parametrize("secret", ["", '{"user": "x"}', "two\nlines"])
def test_a_secret_without_a_password_of_one_line_is_refused(watched: WatchedNode, secret: str) -> None:
    with pytest.raises(AwsError, match="no password"):
        directory.read_password(node_of(watched, "ldaps://x", secret))


@pytest.mark.parametrize(
    ("programs", "plugin", "words"),
    [
        (("enroot",), "opt/slurm-25.11/lib/slurm", "Pyxis with enroot"),
        ((), "opt/slurm-25.11/lib/slurm", "Pyxis without enroot"),
        (("apptainer",), "", "Apptainer"),
        (("enroot",), "", "enroot without Pyxis"),
        (("enroot",), "opt/slurm-24.11/lib/slurm", "enroot without Pyxis"),
        ((), "", "none"),
    ],
)
def test_status_names_how_jobs_run_in_containers(
    watched: WatchedNode, monkeypatch: pytest.MonkeyPatch, programs: tuple[str, ...], plugin: str, words: str
) -> None:
    monkeypatch.setenv("PATH", str(watched.tools))
    for name in programs:
        watched.tool(name, "#!/bin/sh\n")
    if plugin:
        watched.write(f"{plugin}/spank_pyxis.so", "")
    assert container_words(Settings({"slurm_bin": "/opt/slurm-25.11/bin"})).startswith(words)
