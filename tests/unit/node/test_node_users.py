"""The list of users, and the directory: what is refused, where, and what a node gets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cdk_gpu_clusters.errors import ConfigError
from cdk_gpu_clusters.node.settings import NodeSettings, check_settings
from cdk_gpu_clusters.node.user_data import node_environment
from cdk_gpu_clusters.node.users import (
    PosixUser,
    UserDirectory,
    UserList,
    check_directory,
    check_users,
    read_users,
    users_file,
)

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEh0dGVzdHRlc3R0ZXN0dGVzdHRlc3R0ZXN0dGVzdHRl alice@laptop"
GOOD: dict[str, Any] = {
    "groups": {"research": 3000},
    "users": [{"name": "alice", "uid": 2001, "groups": ["research"], "ssh_keys": [KEY]}, {"name": "bob", "uid": 2002}],
}
DIRECTORY = UserDirectory(
    uris=("ldaps://one.example.com", "ldaps://two.example.com:3269"),
    search_base="dc=example,dc=com",
    bind_dn="cn=reader,dc=example,dc=com",
    password_secret="ldap-reader",
    schema="ad",
)


def test_a_list_becomes_a_file_from_s3_with_every_number() -> None:
    file = users_file(read_users(GOOD))
    assert (file.path, file.early) == ("/etc/gpu-cluster/users.json", False)
    read = json.loads(file.text)
    assert read["groups"] == {"research": 3000}
    assert read["users"][0] == {
        "name": "alice", "uid": 2001, "gid": 2001, "groups": ["research"], "ssh_keys": [KEY], "shell": "/bin/bash",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("user", "rule", "path"),
    [
        ({"name": "Alice", "uid": 2001}, "GPU-USR-001", "users.users[0].name"),
        ({"name": "alice", "uid": 0}, "GPU-USR-001", "users.users[0].uid"),
        ({"name": "alice", "uid": 1000}, "GPU-USR-001", "users.users[0].uid"),
        ({"name": "alice", "uid": 60001}, "GPU-USR-001", "users.users[0].uid"),
        ({"name": "alice", "uid": "2001"}, "GPU-USR-001", "users.users[0].uid"),
        ({"name": "alice", "uid": True}, "GPU-USR-001", "users.users[0].uid"),
        ({"uid": 2001}, "GPU-USR-001", "users.users[0]"),
        ({"name": "alice", "uid": 2001, "home": "/x"}, "GPU-USR-001", "users.users[0].home"),
        ({"name": "alice", "uid": 2001, "shell": "bash"}, "GPU-USR-001", "users.users[0].shell"),
        ({"name": "alice", "uid": 2001, "groups": ["physics"]}, "GPU-USR-002", "users.users[0].groups"),
        ({"name": "alice", "uid": 2001, "ssh_keys": ["hello"]}, "GPU-USR-003", "users.users[0].ssh_keys[0]"),
        ({"name": "alice", "uid": 2001, "ssh_keys": [f"{KEY}\nroot"]}, "GPU-USR-003", "users.users[0].ssh_keys[0]"),
        ("alice", "GPU-USR-001", "users.users[0]"),
    ],
)
def test_a_wrong_user_is_refused_at_its_place(user: Any, rule: str, path: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_users({"users": [user]})
    assert [(one.id, one.path) for one in refused.value.findings] == [(rule, path)]
    assert all(one.fix for one in refused.value.findings)


def test_what_a_message_quotes_is_no_password() -> None:
    with pytest.raises(ConfigError) as refused:
        read_users({"users": [{"name": "alice", "uid": 2001, "password": "hunter2"}]})
    assert [one.got for one in refused.value.findings] == ["password"]
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("data", [None, [], "alice", {"people": []}, {"users": "alice"}, {"groups": {"a": "b"}}])
def test_what_is_no_list_is_refused_without_a_traceback(data: Any) -> None:
    with pytest.raises(ConfigError):
        read_users(data)


def test_two_of_one_name_or_number_are_refused_together() -> None:
    users = UserList(
        users=(PosixUser(name="alice", uid=2001), PosixUser(name="alice", uid=2001)), groups={"research": 2001}
    )
    assert sorted({one.id for one in check_users(users)}) == ["GPU-USR-001", "GPU-USR-002"]
    assert len(check_users(users)) == 5


def test_a_private_key_is_never_shown() -> None:
    key = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\n-----END OPENSSH PRIVATE KEY-----"
    with pytest.raises(ConfigError) as refused:
        read_users({"users": [{"name": "alice", "uid": 2001, "ssh_keys": [key]}]})
    assert "b3BlbnNz" not in str(refused.value)
    assert "private key" in str(refused.value)


def test_the_settings_have_the_directory_without_its_password() -> None:
    settings = NodeSettings(fleet_name="train", orchestrator="pcs", directory=DIRECTORY)
    assert check_settings(settings) == []
    values = {name: value for name, value in node_environment(settings).items() if "DIRECTORY" in name}
    assert values == {
        "GPU_DIRECTORY_URIS": "ldaps://one.example.com ldaps://two.example.com:3269",
        "GPU_DIRECTORY_BASE": "dc=example,dc=com",
        "GPU_DIRECTORY_BIND": "cn=reader,dc=example,dc=com",
        "GPU_DIRECTORY_SECRET": "ldap-reader",
        "GPU_DIRECTORY_SCHEMA": "ad",
    }


@pytest.mark.parametrize("uri", ["ldap://one.example.com", "one.example.com", "ldaps://", "https://one.example.com"])
def test_a_directory_without_encryption_is_refused(uri: str) -> None:
    directory = UserDirectory(uris=(uri,), search_base="dc=x", bind_dn="cn=x", password_secret="x")
    assert [one.path for one in check_directory(directory)] == ["directory.uris[0]"]
    assert check_directory(DIRECTORY) == []


def test_a_directory_without_servers_or_texts_is_refused_at_once() -> None:
    directory = UserDirectory(uris=(), search_base="", bind_dn="a\nb", password_secret="", schema="nis")
    assert len(check_directory(directory)) == 5


@pytest.mark.parametrize(
    ("family", "orchestrator", "imex"),
    [
        *[("p6e-gb200", "pcs", {"GPU_IMEX": "1"}), ("p6e-gb200", "slurm", {"GPU_IMEX": "1"})],
        *[("p6e-gb200", "eks", {"GPU_IMEX_OFF": "1"}), ("p6e-gb200", "ec2", {}), ("p6e-gb200", None, {})],
        *[("p5", "pcs", {}), ("p5", "eks", {}), (None, "slurm", {})],
    ],
)
def test_on_ultraservers_the_prolog_of_slurm_makes_imex_domains_and_on_eks_the_service_is_off(
    family: str | None, orchestrator: str | None, imex: dict[str, str]
) -> None:
    settings = NodeSettings(fleet_name="train", orchestrator=orchestrator, instance_family=family)
    environment = node_environment(settings)
    assert {name: value for name, value in environment.items() if "IMEX" in name} == imex
