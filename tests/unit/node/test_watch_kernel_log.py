"""The reader of the kernel's log, on a file and on a FIFO in its place."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdk_gpu_clusters.node.gpunode.watch.kernel import KernelLog, Record


def lines(*numbers: int) -> str:
    return "".join(f"6,{number},{number}00,-;message {number}\n SUBSYSTEM=pci\n DEVICE=+pci:1\n" for number in numbers)


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    file = tmp_path / "kmsg"
    file.write_text(lines(7, 8))
    return file


@pytest.fixture
def fifo(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    """A FIFO, and the end to write to it."""
    path = tmp_path / "kmsg"
    os.mkfifo(path)
    end = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    yield path, end
    os.close(end)


def numbers(records: list[Record]) -> list[int]:
    return [record.sequence for record in records]


def test_first_reader_of_a_boot_reads_all_that_is_there_and_each_message_once(log_file: Path) -> None:
    log = KernelLog(path=log_file)
    assert log.read() == [Record(7, "message 7"), Record(8, "message 8")]
    assert log.read() == []
    with log_file.open("a") as more:
        more.write(lines(9))
    assert numbers(log.read()) == [9]
    assert log.sequence == 9


def test_reader_after_an_earlier_one_skips_what_that_one_read(log_file: Path) -> None:
    assert numbers(KernelLog(path=log_file, after=7).read()) == [8]


def test_reader_in_a_container_skips_what_its_host_said_before(log_file: Path) -> None:
    log = KernelLog(path=log_file, from_end=True)
    assert log.read() == []
    with log_file.open("a") as more:
        more.write(lines(9))
    assert numbers(log.read()) == [9]


def test_reader_that_knows_where_it_was_does_not_skip_to_the_end(log_file: Path) -> None:
    assert numbers(KernelLog(path=log_file, after=7, from_end=True).read()) == [8]


def test_overwritten_messages_are_counted_and_reading_goes_on(log_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    faults = [OSError(errno.EPIPE, "Broken pipe"), OSError(errno.EPIPE, "Broken pipe")]
    read = os.read

    def ring(file: int, size: int) -> bytes:
        if faults:
            raise faults.pop()
        return read(file, size)

    monkeypatch.setattr(os, "read", ring)
    log = KernelLog(path=log_file)
    assert numbers(log.read()) == [7, 8]
    assert log.overwritten == 2


def test_log_that_cannot_be_read_says_so_and_is_opened_again(tmp_path: Path, log_file: Path) -> None:
    log = KernelLog(path=tmp_path / "later")
    with pytest.raises(FileNotFoundError):
        log.read()
    log_file.rename(tmp_path / "later")
    assert numbers(log.read()) == [7, 8]


def test_other_faults_close_the_log_and_the_next_read_goes_on_where_it_was(
    log_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = KernelLog(path=log_file)
    log.read()

    def broken(_: int, __: int) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "read", broken)
        with pytest.raises(OSError, match="Input/output"):
            log.read()
    with log_file.open("a") as more:
        more.write(lines(9))
    assert numbers(log.read()) == [9]


@pytest.mark.parametrize(
    "garbage",
    [
        "",
        "no record\n",
        "6,x,1,-;text\n",
        "x,9,1,-;text\n",
        "6,12;text\n",
        ";;;\n",
        "\x00\xff,\n",
        " 6,9,1,-;continued\n",
    ],
)
def test_garbage_is_no_message(tmp_path: Path, garbage: str) -> None:
    file = tmp_path / "kmsg"
    file.write_bytes(garbage.encode("latin-1") + lines(5).encode())
    assert numbers(KernelLog(path=file).read()) == [5]


def test_only_the_kernel_itself_counts_and_all_messages_are_read(tmp_path: Path) -> None:
    """A process that writes has another facility than LOG_KERN, whatever it asks for."""
    file = tmp_path / "kmsg"
    file.write_text("3,5,6,-;the kernel's\n11,6,7,-;of user space\n30,7,8,-;of a daemon\n")
    log = KernelLog(path=file)
    assert log.read() == [Record(5, "the kernel's")]
    assert log.sequence == 7


def test_message_keeps_its_semicolons(tmp_path: Path) -> None:
    file = tmp_path / "kmsg"
    file.write_text("4,5,6,-;NVRM: a; b; c\n")
    assert KernelLog(path=file).read() == [Record(5, "NVRM: a; b; c")]


def test_waiting_ends_as_soon_as_the_kernel_says_something(fifo: tuple[Path, int]) -> None:
    path, end = fifo
    log = KernelLog(path=path)
    assert log.read() == []
    assert log.wait(0.01) is False
    os.write(end, lines(3).encode())
    assert log.wait(3600) is True
    assert numbers(log.read()) == [3]


def test_without_a_log_waiting_is_sleeping(tmp_path: Path) -> None:
    log = KernelLog(path=tmp_path / "none")
    assert log.wait(0.01) is False
    assert log.wait(-1) is False


def test_kernel_that_talks_without_end_does_not_hold_the_reader(
    log_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = iter(range(10, 10**9))
    monkeypatch.setattr(os, "read", lambda _file, _size: lines(next(count)).encode())
    assert len(KernelLog(path=log_file).read()) == 5_000
