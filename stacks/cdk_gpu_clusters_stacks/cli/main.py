"""`gpu-clusters`: the entry point of the command."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from cdk_gpu_clusters._untrusted import printable
from cdk_gpu_clusters.errors import ConfigError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: Arguments; those of the process by default.

    Returns:
        The exit status: 0 if all is well, 1 if the answer is no (findings, failed checks), 2 for input that cannot be
        used, 130 after Ctrl-C.
    """
    _open_closed_streams()
    from .group import build_group

    try:
        build_group()(args=arguments, prog_name="gpu-clusters")
    except SystemExit as end:
        return int(end.code or 0)
    except OSError as fault:
        where = f"{fault.filename}: " if fault.filename else ""
        print(printable(f"gpu-clusters: {where}{fault.strerror or fault}"), file=sys.stderr)
        return 2
    except ConfigError as fault:
        from .output import report

        report(fault.findings)
        return 2
    return 0


def _open_closed_streams() -> None:
    """Give a command that was started with closed streams (`>&-`) some that lead nowhere."""
    for name, number in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), number)
            setattr(sys, name, os.fdopen(number, "w", encoding="utf-8"))


if __name__ == "__main__":
    sys.exit(main())
