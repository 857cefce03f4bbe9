"""Whether CUDA starts on GPUs and MIG devices, with a `ctypes` that is libcuda."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdk_gpu_clusters.node.gpunode import cli, cuda
from cdk_gpu_clusters.node.gpunode.boot.stage import State
from cdk_gpu_clusters.node.gpunode.boot.stages import probe_cuda
from cdk_gpu_clusters.node.gpunode.node import Aws, Metadata, Node, Settings

# As nvidia-smi prints it (NVIDIA Multi-Instance GPU user guide, "Running CUDA applications"): one GPU of three is whole.
LISTING = """GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77)
  MIG 3g.20gb     Device  0: (UUID: MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f)
  MIG 3g.20gb     Device  1: (UUID: MIG-cba663e8-9bed-5b25-b243-5985ef7c9beb)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-6d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77)
GPU 2: NVIDIA A100-SXM4-40GB (UUID: GPU-7d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77)
  MIG 1g.5gb      Device  0: (UUID: MIG-1e8d6fd7-4e5e-5a5f-9a0f-1a5b6f7c8d9e)
"""
WHOLE = "GPU-6d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77"
SECOND = "MIG-cba663e8-9bed-5b25-b243-5985ef7c9beb"
FIRST, LAST = "MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f", "MIG-1e8d6fd7-4e5e-5a5f-9a0f-1a5b6f7c8d9e"
# Stands in for the module in the child. CUresult of the driver API: 0 success, 3 not initialized, 100 no device.
LIBCUDA = """
import os
class c_int:
    value = 0
class c_void_p(c_int): pass
class c_char_p:
    value = b""
byref = lambda one: one
def CDLL(name):
    if {missing}:
        raise OSError(name + ": cannot open shared object file")
    return Library
class Library:
    def cuInit(flags):
        return 3 if os.environ["CUDA_VISIBLE_DEVICES"] in {ill} else 0
    def cuDeviceGetCount(count):
        count.value = {count}
        return 0
    def cuDevicePrimaryCtxRetain(context, device):
        return 0
    def cuGetErrorName(status, text):
        text.value = b"CUDA_ERROR_NOT_INITIALIZED"
        return 0
"""


class Gpus:
    """The GPUs of a node, and its libcuda."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.have()
        tool = folder / "nvidia-smi"
        tool.write_text(f"#!/bin/sh\ncat <<'END'\n{LISTING}END\n")
        tool.chmod(0o755)

    def have(self, *, ill: tuple[str, ...] = (), count: int = 1, missing: bool = False) -> None:
        (self.folder / "ctypes.py").write_text(LIBCUDA.format(ill=ill, count=count, missing=missing))


@pytest.fixture
def gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gpus:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return Gpus(tmp_path)


NODE = Node(Settings(), Metadata(), "i-1", Aws("us-east-1"))


def test_every_slice_and_every_whole_gpu_is_tried() -> None:
    assert cuda.devices_of(LISTING) == [FIRST, SECOND, WHOLE, LAST]
    assert cuda.devices_of("NVIDIA-SMI has failed\n") == []


@pytest.mark.parametrize("device", [FIRST, SECOND, WHOLE, LAST])
def test_any_one_of_them_keeps_the_node_from_work(gpus: Gpus, device: str) -> None:
    gpus.have(ill=(device,))
    assert cuda.start_on_devices()[0] == cuda.STARTS_NOT


def test_cuda_that_starts_makes_the_node_ready(gpus: Gpus, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["cuda"]) == 0
    assert capsys.readouterr().out == "CUDA starts on 4 GPUs and MIG devices\n"
    assert probe_cuda(NODE).state is State.OK


def test_one_gpu_without_cuda_keeps_the_node_from_work(gpus: Gpus, capsys: pytest.CaptureFixture[str]) -> None:
    gpus.have(ill=(LAST,))
    assert cli.main(["cuda"]) == 3
    words = f"CUDA does not start: {LAST}: cuInit: CUDA_ERROR_NOT_INITIALIZED (3)"
    assert capsys.readouterr().out == f"{words}\n"
    assert (probe_cuda(NODE).state, probe_cuda(NODE).reason) == (State.WAITING, words)


def test_device_that_cuda_does_not_see_is_none(gpus: Gpus) -> None:
    gpus.have(count=0)
    status, words = cuda.start_on_devices()
    assert status == cuda.STARTS_NOT
    assert words.count("0 CUDA devices instead of 1") == 4


def test_image_without_libcuda_is_not_judged(gpus: Gpus) -> None:
    gpus.have(missing=True)
    assert cuda.start_on_devices() == (cuda.UNDETERMINED, "libcuda.so.1: cannot open shared object file")
    assert probe_cuda(NODE).state is State.OK
