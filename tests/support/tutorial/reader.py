"""The reader of the tutorial: a clean Debian with what the page asks for, and a terminal in it."""

from __future__ import annotations

import os
import shlex
import subprocess
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from nodebox.debian import CACHE, program, sources
from nodebox.machine import dies_with_us
from nodebox.rootfs import RELEASE, kept

#: What "You need" of the page states, and the certificates by which both package registries are known.
_PACKAGES = ("awscli", "ca-certificates", "passwd", "python3", "python3-venv")
_OPTIONS = (
    "--variant=apt",
    "--dpkgopt=force-unsafe-io",
    "--dpkgopt=path-exclude=/usr/share/doc/*",
    "--dpkgopt=path-exclude=/usr/share/man/*",
    '--aptopt=Apt::Install-Recommends "false"',
    '--customize-hook=chroot "$1" useradd --create-home --shell /bin/bash --uid 1000 reader',
)
HOME = "/home/reader"
# How this machine reaches the registries of packages: settings that a reader needs none of, or has likewise.
_OF_REGISTRIES = ("PIP_", "NPM_CONFIG_", "npm_config_", "SSL_CERT_", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE")
_NOT_OF_READER = ("PIP_FIND_LINKS", "PIP_TARGET", "PIP_PREFIX", "PIP_USER", "PIP_REQUIRE_VIRTUALENV")
_PLACES = ("/etc/pip.conf", "/etc/ssl/certs", "/usr/local/share/ca-certificates", "/etc/hosts")
_START = """
mount -t overlay overlay -o lowerdir={root},upperdir={directory}/disk,workdir={directory}/work {directory}/root
mount -t proc proc /proc
exec systemd-nspawn --quiet --register=no --keep-unit --as-pid2 --pipe --directory={directory}/root \
  --resolv-conf=replace-host --timezone=off --link-journal=no --user=reader --chdir=/home/reader {options} \
  /bin/bash --noprofile --norc
"""
# Debian's AWS CLI is older than the variable by which SDKs are told where AWS is.
_AWS_CLI = """\
#!/bin/sh
exec /usr/bin/aws --endpoint-url "$AWS_ENDPOINT_URL" "$@"
"""
_END = "end-of-command"


def reader_root() -> Path:
    """The root directory of the reader's Debian, made once and kept; nothing may write to it."""
    return kept("reader", "\n".join([RELEASE, *_PACKAGES, *_OPTIONS]), _build)


def _build(root: Path) -> None:
    command = [program("mmdebstrap"), "--quiet", *_OPTIONS, f"--include={','.join(_PACKAGES)}"]
    done = subprocess.run(
        [*command, RELEASE, str(root), *sources(RELEASE)], check=False, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr[-4000:]


class Terminal:
    """A shell of the reader, in a machine with nothing but Debian.

    Args:
        directory: An empty directory.
        wheels: Folder with the wheels that pip finds besides those of its index.
        versions: File with the versions that pip takes.
        settings: Variables by which AWS is the emulator.
    """

    def __init__(self, directory: Path, *, wheels: Path, versions: Path, settings: Mapping[str, str]) -> None:
        for one in ("disk", "work", "root"):
            (directory / one).mkdir()
        self._cache = CACHE / "tutorial-cache"
        self._cache.mkdir(parents=True, exist_ok=True)
        os.chown(self._cache, 1000, 1000)
        variables = {
            **_registries(),
            **settings,
            "HOME": HOME,
            "LANG": "C.UTF-8",
            "PIP_FIND_LINKS": "/wheels",
            "PIP_CONSTRAINT": "/versions.txt",
            # Python compiles the modules that it imports. pip would compile all of them, which takes 25 s of a processor.
            "PIP_COMPILE": "false",
            "CDK_DISABLE_CLI_TELEMETRY": "true",
        }
        self._disk = directory / "disk"
        aws = directory / "aws"
        aws.write_text(_AWS_CLI)
        aws.chmod(0o755)
        binds = {place: Path(place) for place in _PLACES if Path(place).exists()}
        options = [
            f"--bind={self._cache}:{HOME}/.cache",
            f"--bind-ro={aws}:/usr/local/bin/aws",
            f"--bind-ro={wheels}:/wheels",
            f"--bind-ro={versions}:/versions.txt",
            *(f"--bind-ro={source}:{place}" for place, source in binds.items()),
            *(f"--setenv={name}={value}" for name, value in variables.items()),
        ]
        script = _START.format(root=reader_root(), directory=directory, options=shlex.join(options))
        program("systemd-nspawn", "systemd-container")
        self._process = subprocess.Popen(
            dies_with_us(script), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._lock = threading.Lock()

    def run(self, command: str, on_line: Callable[[str], object] = lambda _: None) -> tuple[int, str]:
        """Run a command in the shell, where the one before has left it.

        Args:
            command: The command.
            on_line: Gets each line as it is printed.

        Returns:
            Its exit status and what it printed, errors among it.
        """
        assert self._process.stdin
        assert self._process.stdout
        # No terminal: a command that asked something would get no answer.
        self._process.stdin.write(f"{{ {command}\n}} </dev/null\necho {_END} $?\n")
        self._process.stdin.flush()
        lines: list[str] = []
        for line in self._process.stdout:
            before, end, status = line.partition(_END)
            if end:
                return int(status), "".join([*lines, before])
            lines.append(line)
            on_line(line)
        raise AssertionError(f"the shell has ended: {command}\n{''.join(lines)}")

    def write(self, file: str, text: str) -> None:
        """Save a file in the folder where the shell is, as an editor would."""
        status, folder = self.run("pwd")
        assert status == 0, folder
        target = self._disk / folder.strip().lstrip("/") / file
        _, printed = self.run(f"cat >{shlex.quote(file)} <<'END-OF-FILE'\n{text}END-OF-FILE")
        assert target.read_text() == text, printed

    def close(self) -> None:
        """Close the terminal."""
        assert self._process.stdin
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout
        self._process.stdout.close()


def _registries() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if name.startswith(_OF_REGISTRIES) and name not in _NOT_OF_READER
    }
