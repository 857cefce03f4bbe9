"""Files that come from S3: the script that fetches them, run for real against a fake account."""

from __future__ import annotations

import hashlib
import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.node.mig import mig_settings
from cdk_gpu_clusters.node.settings import NodeSettings
from cdk_gpu_clusters.node.software import NodeFile, SoftwareObject, software_archive, software_files
from cdk_gpu_clusters.node.user_data import render_user_data, user_data_files
from cdk_gpu_clusters.rules.mig import MigLayout, plan_mig

BUCKET, KEY = "cdk-hnb659fds-assets-123456789012-us-east-2", "0123abcd.tar"
FETCH = "usr/local/libexec/gpu-cluster/fetch-software"
PROGRAM = "usr/local/bin/gpunode"
DENIED = "An error occurred (AccessDenied) when calling the GetObject operation: no identity-based policy allows it"
NO_ROUTE = 'Connect timeout on endpoint URL: "https://s3.us-east-2.amazonaws.com"'
NO_ROLE = "Unable to locate credentials. You can configure credentials by running aws configure."
# The AWS CLI, which cannot fetch anything until it was asked a number of times.
LATE_AWS = """#!/bin/bash
if [[ $2 == get-object ]]; then
  echo >>{count}
  if (($(wc -l <{count}) <= {late})); then
    echo '{words}' >&2
    exit 254
  fi
fi
exec {aws} "$@"
"""


# systemd, as far as the script of the user data asks it: the unit has failed before, or is run now.
SYSTEMCTL = """#!/bin/bash
echo "$@" >>{calls}
case $* in
'is-failed --quiet gpu-software') exec test -e {calls}.failed ;;
'start gpu-software') exec bash {program} ;;
esac
"""


class Fetching:
    """A node whose user data has no room for all its files, and its bucket."""

    def __init__(self, node: Any) -> None:
        self.node = node
        self.calls = node.root / "systemctl-calls"
        self.settings = NodeSettings(
            fleet_name="trainers",
            launch_hook_name="ready",
            log_group_name="/gpu-cluster/trainers",
            boot_deadline_seconds=102,
            accelerator_kind="gpu",
            accelerator_count=2,
            files=(NodeFile(path="/etc/early.conf", text="early\n"), NodeFile(path="/etc/late.conf", text="late\n", early=False)),
        )  # fmt: skip
        self.archive = software_archive(self.settings.files)
        node.account.objects[BUCKET, KEY] = self.archive
        node.tool("systemctl", SYSTEMCTL.format(calls=self.calls, program=node.root / FETCH))
        node.gpus("GPU-aaaa, 81559 MiB", "GPU-bbbb, 81559 MiB")

    @property
    def document(self) -> str:
        digest = hashlib.sha256(self.archive).hexdigest()
        return render_user_data(self.settings, SoftwareObject(bucket_name=BUCKET, object_key=KEY, sha256=digest))

    def boot(self) -> subprocess.CompletedProcess[str]:
        """The first boot: what cloud-init does before the network, and then the fleet's own script."""
        self.node.unpack(self.document)
        done: subprocess.CompletedProcess[str] = self.node.start(self.document)
        return done

    def late_aws(self, words: str, late: int) -> None:
        aws = self.node.tools / "real-aws"
        (self.node.tools / "aws").rename(aws)
        count = self.node.root / "get-object-calls"
        self.node.tool("aws", LATE_AWS.format(aws=aws, count=count, late=late, words=words))

    def started(self) -> bool:
        return self.calls.exists() and "start --no-block gpu-node-boot" in self.calls.read_text()

    def failed(self, done: subprocess.CompletedProcess[str]) -> str:
        """The reason of a failed boot, which must stand everywhere, with nothing unpacked and nothing started."""
        assert done.returncode == 1, done.stderr
        assert not self.started()
        assert not (self.node.root / PROGRAM).exists()
        [reason] = [event["reason"] for event in map(json.loads, done.stdout.splitlines()) if event["state"] == "failed"]  # fmt: skip
        assert reason in (self.node.root / "dev/console").read_text()
        result = json.loads((self.node.root / "var/lib/gpu-cluster/boot.json").read_text())
        assert (result["state"], result["reason"]) == ("failed", f"software: {reason}")
        return str(reason)

    def abandoned(self) -> bool:
        actions = self.node.account.made("complete-lifecycle-action")
        return [action["--lifecycle-action-result"] for action in actions] == [["ABANDON"]]

    def logged(self) -> list[str]:
        return [event["reason"] for event in self.node.account.logged if event["state"] == "failed"]


@pytest.fixture
def fetching(node: Any) -> Fetching:
    return Fetching(node)


def files_under(root: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(root)): (path.stat().st_mode & 0o777, path.read_bytes())
        for top in ("etc", "usr")
        for path in (root / top).rglob("*")
        if path.is_file()
    }


def test_node_gets_every_file_with_its_mode(fetching: Fetching) -> None:
    mig = mig_settings(plan_mig("p4d.24xlarge", MigLayout("19,19,9")))
    fetching.settings = replace(fetching.settings, accelerator_count=8, mig=mig)
    assert fetching.boot().returncode == 0
    files = (*user_data_files(fetching.settings), *software_files(fetching.settings.files))
    installed = files_under(fetching.node.root)
    given = {file.path.lstrip("/"): (file.mode, file.text.encode()) for file in files}
    assert given.items() <= installed.items()
    assert {path.name for path in (fetching.node.root / "var/lib/gpu-cluster").iterdir()} == set()


def test_what_must_be_early_is_there_before_the_network(fetching: Fetching) -> None:
    mig = mig_settings(plan_mig("p4d.24xlarge", MigLayout("19,19,9")))
    fetching.settings = NodeSettings(
        fleet_name="f", accelerator_kind="gpu", accelerator_count=8, mig=mig, files=fetching.settings.files
    )
    fetching.node.unpack(fetching.document)
    assert set(files_under(fetching.node.root)) == {
        "etc/default/mig",
        "etc/early.conf",
        "etc/gpu-cluster/node.env",
        "etc/nccl.conf",
        "etc/security/limits.d/99-gpu-cluster.conf",
        "etc/systemd/system.conf.d/90-gpu-cluster.conf",
        "etc/systemd/system/gpu-mig.service",
        "etc/systemd/system/gpu-mig.service.d/fabric-manager.conf",
        "etc/systemd/system/gpu-node-boot.service.d/order.conf",
        "etc/systemd/system/gpu-software.service",
        FETCH,
        "usr/local/libexec/gpu-cluster/lib.sh",
        "usr/local/libexec/gpu-cluster/mig-apply",
    }


def test_software_that_could_not_be_fetched_is_not_tried_again_by_the_script(fetching: Fetching) -> None:
    fetching.node.unpack(fetching.document)
    Path(f"{fetching.calls}.failed").touch()
    assert fetching.node.start(fetching.document).returncode == 1
    assert not fetching.started()
    assert fetching.node.account.calls == []


def test_units_start_after_their_files_are_there(fetching: Fetching) -> None:
    done = fetching.boot()
    assert (done.returncode, done.stderr) == (0, "")
    assert fetching.calls.read_text().splitlines() == [
        "is-failed --quiet gpu-software",
        "start gpu-software",
        "enable gpu-node-boot gpu-node-drain gpu-node-watch gpu-node-ship.timer",
        "start --no-block gpu-node-boot gpu-node-drain gpu-node-watch gpu-node-ship.timer",
    ]
    [call] = fetching.node.account.made("get-object")
    assert (call["--bucket"], call["--key"][0]) == ([BUCKET], KEY)


@pytest.mark.parametrize("words", [DENIED, NO_ROUTE, NO_ROLE], ids=["policy", "route", "role"])
def test_what_comes_late_is_waited_for(fetching: Fetching, words: str) -> None:
    fetching.late_aws(words, late=4)
    done = fetching.boot()
    assert done.returncode == 0
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(event["stage"], event["state"]) for event in events] == [
        ("software", "waiting"),
        ("software", "ok"),
    ], "each reason is told once"
    assert events[0]["reason"] == words
    assert fetching.started()


@pytest.mark.parametrize(
    ("words", "hint"),
    [(DENIED, "endpoint policy"), (NO_ROUTE, "gateway endpoint or NAT"), (NO_ROLE, "its role")],
    ids=["policy", "route", "role"],
)
def test_what_never_comes_fails_the_boot_at_its_deadline(fetching: Fetching, words: str, hint: str) -> None:
    fetching.late_aws(words, late=10_000)
    reason = fetching.failed(fetching.boot())
    assert reason.startswith(f"s3://{BUCKET}/{KEY}: {words}: ")
    assert hint in reason
    assert fetching.logged() == [reason]
    assert fetching.abandoned()


def test_bucket_that_never_answers_is_given_up(fetching: Fetching) -> None:
    fetching.node.tool("timeout", '#!/bin/sh\n[ $6 = get-object ] && exit 124\nshift 3\nexec "$@"\n')
    reason = fetching.failed(fetching.boot())
    assert "no answer in 120 s: does the subnet reach S3" in reason
    assert fetching.abandoned()


def test_object_that_is_gone_fails_at_once(fetching: Fetching) -> None:
    fetching.node.account.objects.clear()
    reason = fetching.failed(fetching.boot())
    assert "NoSuchKey" in reason
    assert "next deployment" in reason
    assert len(fetching.node.account.made("get-object")) == 1
    assert fetching.abandoned()


@pytest.mark.parametrize("change", ["other", "cut", "empty"])
def test_other_bytes_than_were_deployed_are_never_unpacked(fetching: Fetching, change: str) -> None:
    whole = fetching.archive
    found = {"other": whole.replace(b"late\n", b"evil\n"), "cut": whole[:4096], "empty": b""}[change]
    document = fetching.document
    fetching.node.account.objects[BUCKET, KEY] = found
    reason = fetching.failed(fetching.boot())
    assert fetching.document == document
    assert f"its sha256 is {hashlib.sha256(found).hexdigest()}" in reason
    assert "delete the object" in reason
    assert not (fetching.node.root / "etc/late.conf").exists()
    assert len(fetching.node.account.made("get-object")) == 3
    assert fetching.abandoned()


def test_a_transfer_that_was_cut_is_repeated(fetching: Fetching) -> None:
    aws = fetching.node.tools / "real-aws"
    (fetching.node.tools / "aws").rename(aws)
    mark = fetching.node.root / "cut"
    fetching.node.tool(
        "aws",
        f'#!/bin/bash\n{aws} "$@" || exit\nif [[ $2 == get-object && ! -e {mark} ]]; then\n'
        f'  touch {mark}\n  truncate -s 1000 "${{@: -1}}"\nfi\n',
    )
    assert fetching.boot().returncode == 0
    assert fetching.started()
    assert len(fetching.node.account.made("get-object")) == 2


def test_image_without_the_aws_cli_says_so(fetching: Fetching) -> None:
    fetching.node.unpack(fetching.document)
    library = fetching.node.root / "usr/local/libexec/gpu-cluster/lib.sh"
    (fetching.node.tools / "aws").unlink()
    # Only what the script needs is on the path: the machine that tests may have an AWS CLI.
    for name in ("bash", "cat", "curl", "cut", "date", "env", "mkdir", "sh"):
        found = subprocess.run(["sh", "-c", f"command -v {name}"], check=True, capture_output=True, text=True)
        (fetching.node.tools / name).symlink_to(found.stdout.strip())
    text = library.read_text()
    assert "PATH=$PATH:/usr/local/bin:" in text
    library.write_text(text.replace("PATH=$PATH:/usr/local/bin:", "PATH=$PATH:"))
    fetching.node.environment["PATH"] = str(fetching.node.tools)
    done = fetching.node.run(FETCH)
    assert "no AWS CLI" in fetching.failed(done)
    assert fetching.node.account.calls == []


def test_software_that_does_not_run_fails_the_boot_with_its_own_words(fetching: Fetching) -> None:
    python = fetching.node.tools / "old-python"
    python.write_text("#!/bin/sh\necho 'gpunode needs Python 3.9 or later, and this is 3.7' >&2\nexit 1\n")
    python.chmod(0o755)
    fetching.node.environment["GPU_CLUSTER_PYTHON"] = str(python)
    done = fetching.boot()
    [reason] = [event["reason"] for event in map(json.loads, done.stdout.splitlines()) if event["state"] == "failed"]
    assert reason == "gpunode needs Python 3.9 or later, and this is 3.7"
    assert not fetching.started()
    assert fetching.logged() == [reason]
    assert fetching.abandoned()


def test_image_without_python_says_so(fetching: Fetching) -> None:
    fetching.node.environment["GPU_CLUSTER_PYTHON"] = "/nowhere/python3"
    assert "there is no /nowhere/python3: bake it into the image" in fetching.boot().stdout
    assert fetching.abandoned()


def test_node_without_metadata_says_where_it_stopped(fetching: Fetching, imds: dict[str, str]) -> None:
    imds.clear()
    assert "stopped unexpectedly" in fetching.failed(fetching.boot())


def test_a_failed_fetch_outside_a_group_completes_nothing(fetching: Fetching) -> None:
    fetching.node.account.objects.clear()
    fetching.node.account.group = None
    fetching.failed(fetching.boot())
    assert fetching.node.account.made("complete-lifecycle-action") == []


def test_a_reboot_while_it_fetches_is_no_failure(fetching: Fetching) -> None:
    """The reboot for MIG may come then; systemd tells all processes of the unit to end."""
    fetching.node.unpack(fetching.document)
    # `timeout` makes a group of its own; the other is that of the session.
    fetching.node.tool("aws", '#!/bin/bash\nread -ra stat </proc/$$/stat\nkill -TERM -- "-${stat[5]}"\nkill -TERM 0\n')
    done = subprocess.run(
        ["setsid", "--wait", "bash", str(fetching.node.root / FETCH)],
        env=fetching.node.environment, check=False, capture_output=True, text=True, timeout=20,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (143, "")
    assert not (fetching.node.root / "dev/console").read_text()
    assert fetching.node.account.calls == []


def test_a_node_asks_for_its_group_while_its_boot_goes_on(fetching: Fetching) -> None:
    assert fetching.boot().returncode == 0
    assert len(fetching.node.account.made("describe-auto-scaling-instances")) == 1
    assert fetching.node.boot()[1]["state"] == "ready"
    assert len(fetching.node.account.made("describe-auto-scaling-instances")) == 1
    [action] = fetching.node.account.made("complete-lifecycle-action")
    assert action["--auto-scaling-group-name"] == ["trainers-asg"]
    assert action["--lifecycle-action-result"] == ["CONTINUE"]


@pytest.mark.parametrize("late", ["policy", "group"])
def test_a_group_that_cannot_be_told_yet_is_asked_for_at_the_end(fetching: Fetching, late: str) -> None:
    account = fetching.node.account
    if late == "policy":
        account.denied = {"describe-auto-scaling-instances": 1}
    else:
        account.group = None
    assert fetching.boot().returncode == 0
    account.group = "trainers-asg"
    assert fetching.node.boot()[1]["state"] == "ready"
    assert len(account.made("describe-auto-scaling-instances")) == 2
    assert len(account.made("complete-lifecycle-action")) == 1


def test_a_node_whose_launch_is_over_meanwhile_completes_nothing(fetching: Fetching) -> None:
    account = fetching.node.account
    assert fetching.boot().returncode == 0
    account.lifecycle, account.denied = "Terminating:Wait", {"complete-lifecycle-action": 1}
    _, result = fetching.node.boot()
    [hook] = [event for event in result["events"] if event["stage"] == "hook"]
    assert (hook["state"], hook["reason"]) == (
        "skipped",
        "nothing to complete: trainers-asg has this node Terminating:Wait",
    )


def test_a_node_without_a_hook_asks_for_no_group(fetching: Fetching) -> None:
    fetching.settings = replace(fetching.settings, launch_hook_name="")
    assert fetching.boot().returncode == 0
    assert [name for name, _ in fetching.node.account.calls] == ["get-object"]


def test_a_reboot_fetches_nothing_again(fetching: Fetching) -> None:
    assert fetching.boot().returncode == 0
    assert fetching.node.boot()[1]["state"] == "ready"
    fetching.node.account.objects.clear()
    fetching.node.write("proc/sys/kernel/random/boot_id", "boot-2\n")
    status, result = fetching.node.boot()
    assert (status, result["state"], result["boot_id"]) == (0, "ready", "boot-2")
    assert len(fetching.node.account.made("get-object")) == 1
