"""What a user of a booted node may ask and leave: status, health, jobs."""

from __future__ import annotations

import json

from nodebox.lab import Lab, fleet

JOBS = "/run/gpu-cluster/jobs"
AS_USER = "setpriv --reuid=12345 --regid=12345 --clear-groups"
FETCH = (
    '/usr/bin/python3 -c \'import urllib.request as u; a = u.urlopen("http://127.0.0.1:8687/healthz", timeout=5); '
    "print(a.status, a.read().decode())'"
)


def test_user_asks_for_the_health_of_a_node_and_gets_no_further(lab: Lab) -> None:
    with lab.node(fleet("g6.xlarge"), gpu="L4", gpu_count=1) as node:
        node.power_on()
        node.ready()
        node.in_service()
        node.eventually(lambda: node.run(FETCH, check=False).returncode == 0)
        status, _, body = node.run(f"{AS_USER} {FETCH}").stdout.partition(" ")
        assert (status, json.loads(body)["state"]) == ("200", "ok")

        shown = node.run(f"{AS_USER} /usr/local/bin/gpunode status --json", check=False)
        assert json.loads(shown.stdout)["state"] == "ok"
        # The container has no kernel log, which the watchdog reports.
        assert shown.returncode < 3
        assert (shown.returncode == 0) == (json.loads(shown.stdout)["reasons"] == [])
        assert "watchdog" in node.run("/usr/local/bin/gpunode status", check=False).stdout

        assert node.run(f"findmnt -no FSTYPE {JOBS}").stdout.strip() == "tmpfs"
        assert node.run(f"stat -c %a {JOBS}").stdout.strip() == "1777"
        assert node.run(f"{AS_USER} sh -c 'head -c 100M /dev/zero >{JOBS}/9'", check=False).returncode != 0
        for command in (f"ls {JOBS}/../spool", "ls /var/lib/gpu-cluster/spool", "touch /run/gpu-cluster/ending"):
            assert node.run(f"{AS_USER} {command}", check=False).returncode != 0
        assert node.run("find /run/gpu-cluster /var/lib/gpu-cluster -xdev -perm -o+w").stdout.split() == [JOBS]
