"""How jobs of Slurm run in containers on this node: Pyxis with enroot, or Apptainer."""

from __future__ import annotations

import shutil
from pathlib import Path

from . import paths
from .node import Settings

_PLUGIN = "spank_pyxis.so"
# Of the Slurm of AWS PCS, then of NVIDIA's packages and of others (NVIDIA/pyxis, README, "Installation").
_FOLDERS = ("/usr/local/lib/slurm", "/usr/lib64/slurm", "/usr/lib/slurm", "/usr/lib/x86_64-linux-gnu/slurm-wlm")


def container_words(settings: Settings) -> str:
    """What jobs can use, in words for the status of a node."""
    has_enroot, has_apptainer = shutil.which("enroot") is not None, shutil.which("apptainer") is not None
    plugin = _plugin(settings)
    if plugin and has_enroot:
        return f"Pyxis with enroot: srun --container-image ({plugin})"
    if plugin:
        return f"Pyxis without enroot, so that --container-image fails: install enroot ({plugin})"
    if has_apptainer:
        return "Apptainer: srun apptainer exec --nv docker://IMAGE; the image has no Pyxis"
    if has_enroot:
        return "enroot without Pyxis: srun enroot start; the image has no --container-image"
    return "none: the image has neither Pyxis with enroot nor Apptainer"


def _plugin(settings: Settings) -> Path | None:
    """Pyxis belongs to one version of Slurm, so that of GPU_SLURM_BIN counts first."""
    own = settings.text("slurm_bin")
    folders = [f"{own.rstrip('/').rpartition('/')[0]}/lib/slurm", *_FOLDERS] if own else _FOLDERS
    found = (paths.below(f"{folder}/{_PLUGIN}") for folder in folders)
    return next((file for file in found if file.exists()), None)
