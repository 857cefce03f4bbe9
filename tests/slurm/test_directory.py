"""The sssd.conf that a node writes, read by the real SSSD, and the users that a node makes by real useradd(8)."""

from __future__ import annotations

import json
import os

import pytest

from cdk_gpu_clusters.node.gpunode.directory import conf_text
from cdk_gpu_clusters.node.gpunode.node import Settings
from cdk_gpu_clusters.node.users import UserDirectory, read_users, users_file
from slurmbox.box import Box

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEh0dGVzdHRlc3R0ZXN0dGVzdHRlc3R0ZXN0dGVzdHRl alice@laptop"


def settings_of(directory: UserDirectory) -> Settings:
    return Settings({name.removeprefix("GPU_").lower(): value for name, value in directory.environment().items()})


@pytest.mark.parametrize("schema", ["rfc2307", "rfc2307bis", "ad"])
def test_sssd_accepts_the_configuration(box: Box, schema: str) -> None:
    if os.environ.get("SLURM_TIER") == "newest" and not box.path("/usr/sbin/sssctl").exists():
        pytest.skip("Debian testing has no SSSD at the moment; the pinned tier has it")
    directory = UserDirectory(
        uris=("ldaps://ad.example.com",), search_base="dc=example,dc=com", bind_dn="cn=reader,dc=example,dc=com",
        password_secret="s", schema=schema, ca_file="/etc/ssl/certs/ca-certificates.crt",
    )  # fmt: skip
    box.path("/etc/sssd").mkdir(exist_ok=True)
    text = conf_text(settings_of(directory), "pass word")
    box.write("/etc/sssd/sssd.conf", text, 0o600)
    said = box.run("sssctl", "config-check", check=False)
    assert "Issues identified by validators: 0" in said.stdout, said.stdout + said.stderr
    # The other side: a name that SSSD does not know is found.
    box.write("/etc/sssd/sssd.conf", text + "ldap_serch_base = x\n", 0o600)
    assert "Issues identified by validators: 1" in box.run("sssctl", "config-check", check=False).stdout


def test_the_users_of_a_list_are_there(box: Box) -> None:
    data = {"groups": {"research": 3000}, "users": [{"name": "ada", "uid": 2101, "groups": ["research"],
                                                     "ssh_keys": [KEY]}]}  # fmt: skip
    file = users_file(read_users(data))
    box.write(file.path, file.text)
    program = (
        "import sys; sys.path.insert(0, '/usr/local/lib/gpu-cluster'); from gpunode.accounts import probe_users;"
        " print(probe_users(None))"
    )
    for _ in range(2):
        assert "State.OK" in box.run("python3", "-c", program).stdout
    assert box.run("id", "ada").stdout == "uid=2101(ada) gid=2101(ada) groups=2101(ada),3000(research)\n"
    assert box.run("stat", "--format=%U %a", "/home/ada").stdout == "ada 700\n"
    assert box.path("/etc/ssh/authorized_keys.d/ada").read_text() == f"{KEY}\n"
    box.write(file.path, json.dumps({"groups": {}, "users": [{**json.loads(file.text)["users"][0], "uid": 2102}]}))
    assert "has the number 2101 on this image, not 2102" in box.run("python3", "-c", program).stdout
