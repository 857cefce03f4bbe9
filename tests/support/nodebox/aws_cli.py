"""Debian's AWS CLI, which the host imports once for all nodes: for each call it forks a process with its modules.

Its imports take half a second of a processor, on each of ten calls or more of a boot; all else of it is as on a node:
the same program, with the files, the network and the variables of its caller.
"""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

#: Where nodes find it; `image/usr/local/bin/aws` knows the place.
PLACE = "/usr/local/libexec/aws.socket"
# Debian's Python runs it, with Debian's root directory. The caller waits meanwhile, so that its namespaces exist.
_SERVER = """
import ctypes, importlib, os, select, signal, socket, struct, sys
import awscli
from awscli.clidriver import create_clidriver, main

listening, proc = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])
create_clidriver()


def serve():
    while True:
        connection, _ = listening.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            call(connection)
            os._exit(0)
        connection.close()


def call(connection):
    request, descriptors, _, _ = socket.recv_fds(connection, 1 << 20, 3)
    caller, _, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    child = os.fork()
    if child == 0:
        status = 255
        try:
            status = become(caller, descriptors, request.decode(errors="surrogateescape").split("\\0"))
            sys.stdout.flush()
        finally:
            sys.stderr.flush()
            os._exit(status)
    ended = os.pidfd_open(child)
    # A caller that was killed takes its call along.
    if ended not in select.select([ended, connection], [], [])[0]:
        os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    connection.send(str(status).encode())


def become(caller, descriptors, request):
    for place, descriptor in enumerate(descriptors):
        os.dup2(descriptor, place)
    for kind in ("net", "mnt"):
        if ctypes.CDLL(None).setns(os.open(f"{caller}/ns/{kind}", os.O_RDONLY, dir_fd=proc), 0):
            return 255
    folder, count, *words = request
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(word.split("=", 1) for word in words[int(count):])
    importlib.reload(awscli)  # it adds variables
    sys.argv = words[: int(count)]
    return main()


signal.signal(signal.SIGCHLD, signal.SIG_IGN)
serve()
"""


def serve_aws_cli(path: Path, debian: Path) -> subprocess.Popen[bytes]:
    """Serve the AWS CLI, until the process that this gives or this process ends.

    Args:
        path: Where its socket is made.
        debian: The root directory whose program it is.
    """
    proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(str(path))
        listening.listen(64)
        command = ["/usr/bin/python3", "-I", "-c", _SERVER, str(listening.fileno()), str(proc)]
        server = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "chroot", str(debian), *command],
            pass_fds=[listening.fileno(), proc], stdin=subprocess.DEVNULL, env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8"},
        )  # fmt: skip
    os.close(proc)
    return server
