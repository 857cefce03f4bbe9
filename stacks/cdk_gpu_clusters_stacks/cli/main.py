"""`gpu-clusters`: the entry point of the command."""

from __future__ import annotations

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
        used.
    """
    from .group import build_group

    try:
        build_group()(args=arguments, prog_name="gpu-clusters")
    except SystemExit as end:
        return int(end.code or 0)
    except OSError as fault:
        print(printable(f"gpu-clusters: {fault}"), file=sys.stderr)
        return 2
    except ConfigError as fault:
        from cdk_gpu_clusters_stacks.spec import report

        report(fault.findings)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
