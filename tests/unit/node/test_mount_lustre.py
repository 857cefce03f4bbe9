"""mount-lustre, run for real: mount, kernel and package managers are faked, what they did is read back."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from cdk_gpu_clusters.node.storage import LustreMount

SCRIPT = "usr/local/libexec/gpu-cluster/mount-lustre"
FSX = LustreMount(mount_point="/fsx", dns_name="fs-0a.fsx.us-east-2.amazonaws.com", mount_name="abcdbev")
DATA = LustreMount(mount_point="/mnt/data", dns_name="fs-0b.fsx.us-east-2.amazonaws.com", mount_name="fsx")
AMAZON = 'ID="amzn"\nVERSION_ID="2023"\nPRETTY_NAME="Amazon Linux 2023"\n'
NOBLE = 'ID=ubuntu\nVERSION_ID="24.04"\nVERSION_CODENAME=noble\n'
KERNEL = "6.8.0-1030-aws"
KEY = "9C36DD9C515F10DBC3AA835C5D5CCC3383A962E1"


class Lustre:
    """A node that mounts Lustre, and the world around it."""

    def __init__(self, node: Any) -> None:
        self.node, self.root = node, node.root
        node.environment["GPU_PATIENCE"] = "0"
        node.write("proc/mounts", "/dev/nvme0n1p1 / xfs rw 0 0\n")
        node.tool("uname", f"#!/bin/sh\necho {KERNEL}\n")
        node.tool("lctl", f'#!/bin/sh\necho "$@" >>{self.root}/lctl-calls\n')
        self.has(cpus=8, gib=32)
        node.tool("chattr", f'#!/bin/sh\necho "$@" >>{self.root}/chattr-calls\n')
        node.tool(
            "modprobe",
            f"#!/bin/sh\n[ -e {self.root}/lustre.ko ] || {{ echo 'Module lustre not found'; exit 1; }}\n",
        )
        for manager in ("dnf", "apt-get", "curl"):
            node.tool(manager, f"#!/bin/sh\necho {manager} ran; exit 99\n")
        self.mounts_after(0)

    def has(self, *, cpus: int, gib: int) -> None:
        """The size of the node."""
        self.node.tool("nproc", f"#!/bin/sh\necho {cpus}\n")
        self.node.write("proc/meminfo", f"MemTotal:       {gib * 1024**2} kB\n")

    def has_client(self) -> None:
        self.node.tool("mount.lustre", "#!/bin/sh\n")
        self.node.write("lustre.ko", "")

    def mounts_after(self, failures: int, words: str = "mount.lustre: mount failed: Input/output error") -> None:
        """`mount` fails so many times with these words, then does what the kernel does: the server by its address."""
        calls = self.root / "mount-calls"
        self.node.tool(
            "mount",
            f'#!/bin/bash\necho "$@" >>{calls}\n'
            f"if (($(wc -l <{calls}) <= {failures})); then printf '%s\\n' '{words}' >&2; exit 5; fi\n"
            f'source=${{*: -2:1}}\necho "10.0.0.7@tcp:${{source#*@tcp:}} ${{*: -1}} $2 rw 0 0" >>{self.root}/proc/mounts\n',
        )

    def installs(self, manager: str, *, status: int = 0, words: str = "", module: bool = True) -> None:
        """A package manager that brings the client, or says why it does not."""
        client = f"{self.node.tools}/mount.lustre"
        brought = f"printf '#!/bin/sh\\n' >{client}; chmod +x {client}" + (
            f"; : >{self.root}/lustre.ko" if module else ""
        )
        self.node.tool(
            manager,
            f'#!/bin/bash\necho "$@" >>{self.root}/{manager}-calls\nif [[ " $* " != *" install "* ]]; then exit 0; fi\n'
            + (f"printf '%s\\n' '{words}' >&2\nexit {status}\n" if status else f"{brought}\n"),
        )

    def serves_keys(self, *fingerprints: str, subkey: str = "") -> None:
        """What the address of the repository's key serves, as `gpg --show-keys --with-colons` lists it."""
        lines = [f"pub:-:4096:1:0:0:::-:::scSC::::::23::0:\\nfpr:::::::::{one}:\\n" for one in fingerprints]
        lines += [f"sub:-:4096:1:0:0::::::s::::::23:\\nfpr:::::::::{subkey}:\\n"] if subkey else []
        calls = f'echo "$@" >>{self.root}/curl-calls'
        served = 'while [[ $1 != -o ]]; do shift; done; echo key >"$2"'
        self.node.tool("curl", f"#!/bin/bash\n{calls}\n{served}\n")
        self.node.tool("gpg", f"#!/bin/bash\nprintf '{''.join(lines)}'\n")

    def runs(self, *mounts: LustreMount, system: str = AMAZON, **settings: Any) -> tuple[int, dict[str, Any]]:
        """Run the unit's script: exit status and result file."""
        self.node.install(mounts=mounts or (FSX,), **settings)
        self.node.write("etc/os-release", system)
        done = self.node.run(SCRIPT)
        assert not done.stderr, done.stderr
        return done.returncode, json.loads((self.root / "var/lib/gpu-cluster/lustre.json").read_text())

    def calls(self, name: str) -> list[str]:
        file = self.root / f"{name}-calls"
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture
def lustre(node: Any) -> Lustre:
    return Lustre(node)


@pytest.fixture
def ready_lustre(lustre: Lustre) -> Lustre:
    lustre.has_client()
    return lustre


def test_mounts_stand_in_a_readable_file_and_are_mounted_in_its_order(ready_lustre: Lustre) -> None:
    status, result = ready_lustre.runs(FSX, DATA)
    assert (status, result["state"], result["reason"]) == (0, "ok", "mounted: /fsx /mnt/data")
    root = ready_lustre.root
    assert ready_lustre.calls("mount") == [
        f"-t lustre -o relatime,flock fs-0a.fsx.us-east-2.amazonaws.com@tcp:/abcdbev {root}/fsx",
        f"-t lustre -o relatime,flock fs-0b.fsx.us-east-2.amazonaws.com@tcp:/fsx {root}/mnt/data",
    ]
    assert ready_lustre.calls("dnf") == []
    assert list((root / "fsx").iterdir()) == []  # the probe has gone
    assert ready_lustre.calls("chattr")[0] == f"+i {root}/fsx"  # not the root volume, while nothing is mounted


def test_client_is_installed_on_amazon_linux(lustre: Lustre) -> None:
    lustre.installs("dnf")
    assert lustre.runs()[0] == 0
    [call] = lustre.calls("dnf")
    assert call.endswith("install lustre-client")


@pytest.mark.parametrize("codename", ["jammy", "noble"])
def test_client_is_installed_on_ubuntu_for_the_running_kernel(lustre: Lustre, codename: str) -> None:
    lustre.installs("apt-get")
    lustre.serves_keys(KEY)
    assert lustre.runs(system=NOBLE.replace("noble", codename))[0] == 0
    assert lustre.calls("apt-get")[-1].endswith(f"install lustre-client-modules-{KERNEL}")
    assert lustre.calls("curl")[0].endswith("fsx-ubuntu-public-key.asc")
    listed = (lustre.root / "etc/apt/sources.list.d/fsx-lustre.list").read_text()
    assert listed == (
        "deb [signed-by=/usr/share/keyrings/fsx-lustre.asc] "
        f"https://fsx-lustre-client-repo.s3.amazonaws.com/ubuntu {codename} main\n"
    )


@pytest.mark.parametrize(
    ("system", "manager", "words", "tries", "reason"),
    [
        (
            AMAZON, "dnf", "Cannot download repomd.xml: Timeout was reached", 4,
            ("no Lustre client for amzn 2023, kernel 6.8.0-1030-aws, and none could be installed: "
            "Cannot download repomd.xml: Timeout was reached: "
            "bake lustre-client into the image, or let the subnet reach the Amazon Linux repository (in S3)"),
        ),
        (
            NOBLE, "apt-get", "E: Unable to locate package lustre-client-modules-6.8.0-1030-aws", 8,
            ("E: Unable to locate package lustre-client-modules-6.8.0-1030-aws: "
            "https://fsx-lustre-client-repo.s3.amazonaws.com/ubuntu has no client for kernel 6.8.0-1030-aws: "
            "bake linux-aws and lustre-client-modules-aws into the image"),
        ),
    ],
    ids=["amazon", "ubuntu"],
)  # fmt: skip
def test_closed_network_or_missing_package_names_what_to_bake(
    lustre: Lustre, system: str, manager: str, words: str, tries: int, reason: str
) -> None:
    lustre.installs(manager, status=1, words=words)
    lustre.serves_keys(KEY)
    status, result = lustre.runs(system=system)
    assert (status, result["state"], len(lustre.calls(manager))) == (1, "failed", tries)
    assert result["reason"].endswith(reason)
    assert reason in (lustre.root / "dev/console").read_text()


@pytest.mark.parametrize("keys", [("A" * 40,), (KEY, "A" * 40), ()], ids=["another", "one more", "none"])
def test_packages_signed_by_another_key_are_not_installed(lustre: Lustre, keys: tuple[str, ...]) -> None:
    lustre.installs("apt-get")
    lustre.serves_keys(*keys)
    status, result = lustre.runs(system=NOBLE)
    assert (status, lustre.calls("apt-get")) == (1, [])
    assert "the key of the repository is not the known one" in result["reason"]
    assert not list((lustre.root / "usr/share/keyrings").iterdir())


def test_the_key_of_a_subkey_is_not_the_key(lustre: Lustre) -> None:
    """What signs is below the key: `gpg --show-keys` lists its fingerprint too."""
    lustre.installs("apt-get")
    lustre.serves_keys("A" * 40, subkey=KEY)
    assert lustre.runs(system=NOBLE)[0] == 1
    assert lustre.calls("apt-get") == []


def test_key_that_cannot_be_fetched_names_the_repository_and_the_package(lustre: Lustre) -> None:
    lustre.node.tool("curl", "#!/bin/sh\necho 'curl: (28) Connection timed out' >&2\nexit 28\n")
    reason = lustre.runs(system=NOBLE)[1]["reason"]
    assert "curl: (28) Connection timed out" in reason
    assert f"bake lustre-client-modules-{KERNEL} into the image" in reason
    assert lustre.calls("apt-get") == []


def test_other_system_without_a_client_is_told_to_bake_one(lustre: Lustre) -> None:
    reason = lustre.runs(system="ID=sles\nVERSION_ID=15.6\n")[1]["reason"]
    assert "no Lustre client is known for sles 15.6: bake one into the image" in reason


def test_client_for_another_kernel_is_told_apart(lustre: Lustre) -> None:
    lustre.installs("dnf", module=False)
    reason = lustre.runs()[1]["reason"]
    assert f"kernel {KERNEL} does not load it: Module lustre not found" in reason


def test_file_system_that_answers_late_is_mounted(ready_lustre: Lustre) -> None:
    ready_lustre.mounts_after(4)
    status, result = ready_lustre.runs(boot_deadline_seconds=900)
    assert (status, result["state"], len(ready_lustre.calls("mount"))) == (0, "ok", 5)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("mount failed: Input/output error Is the MGS running?", "TCP 988 and 1018-1023"),
        ("mount failed: No such file or directory", "another mount name"),
        ("Can't parse NID 'fs-0a'", "does not resolve"),
        ("mount failed: Invalid argument", "version 2.12 or later"),
    ],
)
def test_mount_that_never_works_fails_with_the_words_and_their_meaning(
    ready_lustre: Lustre, words: str, hint: str
) -> None:
    ready_lustre.mounts_after(1000, words.replace("'", ""))
    status, result = ready_lustre.runs(boot_deadline_seconds=100)
    assert (status, result["state"]) == (1, "failed")
    assert "fs-0a.fsx.us-east-2.amazonaws.com@tcp:/abcdbev at /fsx" in result["reason"]
    assert words.replace("'", "") in result["reason"]
    assert hint in result["reason"]


def test_second_mount_is_not_tried_when_the_first_fails(ready_lustre: Lustre) -> None:
    ready_lustre.mounts_after(1000)
    ready_lustre.runs(FSX, DATA, boot_deadline_seconds=100)
    assert not any("/mnt/data" in call for call in ready_lustre.calls("mount"))


def test_mounted_file_system_is_left_alone(ready_lustre: Lustre) -> None:
    ready_lustre.runs()
    status, result = ready_lustre.runs()
    assert (status, result["state"], len(ready_lustre.calls("mount"))) == (0, "ok", 1)


def test_reboot_mounts_again_and_installs_nothing(lustre: Lustre) -> None:
    lustre.installs("dnf")
    lustre.runs()
    lustre.node.write("proc/mounts", "")
    lustre.node.write("proc/sys/kernel/random/boot_id", "boot-2\n")
    status, result = lustre.runs()
    assert (status, result["boot_id"]) == (0, "boot-2")
    assert (len(lustre.calls("mount")), len(lustre.calls("dnf"))) == (2, 1)


def test_place_that_is_taken_is_not_covered(ready_lustre: Lustre) -> None:
    ready_lustre.node.write("proc/mounts", f"/dev/nvme1n1 {ready_lustre.root}/fsx xfs rw 0 0\n")
    status, result = ready_lustre.runs()
    assert (status, result["reason"]) == (1, "/fsx is taken by /dev/nvme1n1 xfs")
    assert ready_lustre.calls("mount") == []


def test_other_file_system_at_the_place_is_no_match(ready_lustre: Lustre) -> None:
    ready_lustre.node.write("proc/mounts", f"10.0.0.7@tcp:/other {ready_lustre.root}/fsx lustre rw 0 0\n")
    assert "taken by 10.0.0.7@tcp:/other" in ready_lustre.runs()[1]["reason"]


def test_probe_that_fails_fails_the_unit_and_leaves_no_file(ready_lustre: Lustre) -> None:
    ready_lustre.node.tool("sync", "#!/bin/sh\necho 'No space left on device' >&2\nexit 1\n")
    status, result = ready_lustre.runs()
    assert (status, result["reason"]) == (1, "/fsx is mounted but takes no files: No space left on device")
    assert list((ready_lustre.root / "fsx").iterdir()) == []


def test_read_only_mount_is_listed_and_not_written(ready_lustre: Lustre) -> None:
    ready_lustre.node.tool("mktemp", "#!/bin/sh\nexit 1\n")
    read_only = LustreMount(mount_point="/fsx", dns_name="fs-0a", mount_name="abcd", options="ro,relatime,flock")
    assert ready_lustre.runs(read_only)[0] == 0


def test_node_is_ready_only_with_its_mounts_and_abandons_with_their_reason(gpu_node: Any, gpu_settings: Any) -> None:
    lustre = Lustre(gpu_node)
    lustre.has_client()
    (gpu_node.tools / "curl").unlink()  # the boot check asks the instance metadata
    lustre.runs(**gpu_settings)
    result = gpu_node.boot()[1]
    passed = [event["stage"] for event in result["events"] if event["state"] == "ok"]
    assert result["state"] == "ready"
    assert passed.index("lustre") < passed.index("user-data")
    # The mount of an earlier boot counts for nothing.
    gpu_node.write("proc/sys/kernel/random/boot_id", "boot-2\n")
    gpu_node.write("proc/mounts", "")
    gpu_node.account.lifecycle = "Pending:Wait"
    shutil.rmtree(gpu_node.root / "var")
    lustre.mounts_after(1000)
    lustre.runs(**gpu_settings, boot_deadline_seconds=100)
    status, result = gpu_node.boot()
    assert (status, result["state"]) == (1, "failed")
    assert result["reason"].startswith("lustre: fs-0a.fsx.us-east-2.amazonaws.com@tcp:/abcdbev at /fsx, tried ")
    assert gpu_node.account.made("complete-lifecycle-action")[-1]["--lifecycle-action-result"] == ["ABANDON"]


def test_unit_that_never_ran_or_hangs_fails_the_node_by_its_deadline(node: Any) -> None:
    node.install(mounts=(FSX,), boot_deadline_seconds=100)
    assert node.boot()[1]["reason"] == "lustre: gpu-lustre has not finished: not started"
    node.write(
        "var/lib/gpu-cluster/lustre.json",
        '{"state":"mounting","boot_id":"boot-1","reason":"fs-0a at /fsx"}\n',
    )
    assert node.boot()[1]["reason"] == "lustre: gpu-lustre has not finished: mounting fs-0a at /fsx"
    node.write("var/lib/gpu-cluster/lustre.json", '{"state":"ok","boot_id":"boot-0","reason":"mounted: /fsx"}\n')
    assert node.boot()[1]["reason"] == "lustre: gpu-lustre has not finished: not started"


EFA = LustreMount(mount_point="/fsx", dns_name=FSX.dns_name, mount_name=FSX.mount_name, efa=True)
READ_ONLY = LustreMount(
    mount_point="/mnt/data", dns_name=DATA.dns_name, mount_name=DATA.mount_name, options="ro", efa=True
)


def gpunode(lustre: Lustre, *, set_up: str = "", probe: str = "") -> None:
    """`gpunode lustre-efa`, whose steps fail with these words."""
    lines = [
        f'set-up) [ -z "{set_up}" ] || {{ echo "{set_up}"; exit 1; }} ;;',
        f'probe) [ -z "{probe}" ] || {{ echo "{probe}"; exit 1; }} ;;',
    ]
    calls = f'echo "$@, $(wc -l <{lustre.root}/proc/mounts) mounts" >>{lustre.root}/gpunode-calls'
    lustre.node.tool("gpunode", "\n".join(["#!/bin/sh", calls, 'case "$2" in', *lines, "esac\n"]))


def test_efa_is_set_up_before_the_first_mount_and_probed_after_the_last(ready_lustre: Lustre) -> None:
    gpunode(ready_lustre)
    status, result = ready_lustre.runs(EFA, READ_ONLY)
    assert (status, result["reason"]) == (0, "mounted: /fsx /mnt/data over EFA")
    assert ready_lustre.calls("gpunode") == ["lustre-efa set-up, 1 mounts", "lustre-efa probe /fsx, 3 mounts"]


@pytest.mark.parametrize("step", ["set_up", "probe"])
def test_lustre_without_efa_is_mounted_over_tcp_and_says_so(ready_lustre: Lustre, step: str) -> None:
    gpunode(ready_lustre, **{step: "the node has no EFA devices"})
    status, result = ready_lustre.runs(EFA)
    assert (status, result["state"]) == (0, "ok")
    assert result["reason"] == "mounted: /fsx; data take TCP, not EFA: the node has no EFA devices"
    assert len(ready_lustre.calls("mount")) == 1


def test_a_file_system_without_efa_asks_for_none(ready_lustre: Lustre) -> None:
    gpunode(ready_lustre)
    assert ready_lustre.runs(FSX)[1]["reason"] == "mounted: /fsx"
    assert ready_lustre.calls("gpunode") == []


# FSx for Lustre user guide, "Performance tips", recommended client instance tuning.
MODULES = "options ptlrpc ptlrpcd_per_cpt_max=32\noptions ksocklnd credits=2560\n"
REQUESTS = "set_param osc.*OST*.max_rpcs_in_flight=32 mdc.*.max_rpcs_in_flight=64 mdc.*.max_mod_rpcs_in_flight=50"


def locks(cpus: int) -> str:
    return f"set_param ldlm.namespaces.*.lru_max_age=600000 ldlm.namespaces.*.lru_size={100 * cpus}"


@pytest.mark.parametrize(
    ("cpus", "gib", "modules", "params"),
    [
        (64, 64, "", []),
        (48, 371, "", [locks(48)]),  # g6e.12xlarge
        (192, 64, MODULES, [REQUESTS]),
        (192, 1999, MODULES, [locks(192), REQUESTS]),  # p5.48xlarge
    ],
)
def test_large_clients_are_tuned_as_the_guide_says(
    lustre: Lustre, cpus: int, gib: int, modules: str, params: list[str]
) -> None:
    lustre.has(cpus=cpus, gib=gib)
    lustre.has_client()
    # The options must be there when the first module is loaded.
    options = lustre.root / "etc/modprobe.d/gpu-lustre.conf"
    lustre.node.tool("modprobe", f"#!/bin/sh\n[ ! -e {options} ] || echo tuned >>{lustre.root}/modprobe-calls\n")
    for _ in range(2):
        assert lustre.runs()[0] == 0
    assert (options.read_text() if options.exists() else "") == modules
    assert lustre.calls("modprobe") == (["tuned", "tuned"] if modules else [])
    assert lustre.calls("lctl") == 2 * params


def test_node_that_takes_no_tuning_mounts_all_the_same(lustre: Lustre) -> None:
    lustre.has(cpus=192, gib=1999)
    lustre.has_client()
    lustre.node.write("sys/module/ptlrpc/parameters/ptlrpcd_per_cpt_max", "0\n")
    lustre.node.tool("lctl", "#!/bin/sh\necho 'error: set_param: no such parameter' >&2\nexit 2\n")
    assert lustre.runs()[0] == 0
