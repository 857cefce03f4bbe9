"""Where nodes are booted: one emulated account, one Debian, and a directory for each node."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

from cdk_gpu_clusters import GpuFleet
from nodebox.aws_cli import PLACE, serve_aws_cli
from nodebox.cloud import Build, Cloud, Fleet
from nodebox.debian import need_root
from nodebox.image import eks_layer, other_order
from nodebox.machine import remove_leftovers
from nodebox.node import Node
from stack_fixtures import Site


class Lab:
    """Makes nodes.

    Args:
        app_factory: Makes apps: the fixture of that name.
        directory: An empty directory.
        kind: What its nodes are: containers if left out.
    """

    def __init__(self, app_factory: Any, directory: Path, *, kind: type[Node] = Node) -> None:
        need_root()
        remove_leftovers()
        self.cloud = Cloud(app_factory)
        self._directory = directory
        self._kind, self._layers = kind, kind.image(directory / "image")
        self._other_order = other_order(directory / "other", self._layers[-1])
        self._eks = eks_layer(directory / "eks", self._layers[-1])
        self._numbers = itertools.count(1)
        self._binds: dict[str, Path] = {}
        self._made = ExitStack()

    def __enter__(self) -> Self:
        self.cloud.start()
        self._made.callback(self.cloud.stop)
        if self._kind.sees_sockets:
            self._binds = {PLACE: self._directory / "aws.socket"}
            server = self._made.enter_context(serve_aws_cli(self._binds[PLACE], self._layers[-1]))
            self._made.callback(server.kill)
        return self

    def __exit__(self, *_: object) -> None:
        self._made.close()

    def directory(self) -> Path:
        """A new directory."""
        made = self._directory / f"{next(self._numbers)}"
        made.mkdir()
        return made

    @contextmanager
    def node(self, build: Build, **options: Any) -> Iterator[Node]:
        """Deploy a fleet: its first instance, off; options go to `Node`."""
        with self.instance(self.cloud.deploy(build), **options) as node:
            yield node

    @contextmanager
    def instance(
        self,
        fleet: Fleet,
        *,
        baked: Path | None = None,
        debian_order: bool = True,
        eks: bool = False,
        **options: Any,
    ) -> Iterator[Node]:
        """The instance of a fleet that waits for its launching hook, off.

        Args:
            fleet: The fleet.
            baked: Disk of another node that its image was made from; a fresh image if left out.
            debian_order: Whether cloud-init's stages stand where Debian and Ubuntu, and not others, have them.
            eks: Whether the image is EKS's own, which has them in the order of the others.
            options: Go to `Node`.
        """
        directory = self.directory()
        layers = [
            *([] if baked is None else [baked]),
            *([self._eks] if eks else []),
            *([] if debian_order or eks else [self._other_order]),
            *self._layers,
        ]
        options["binds"] = {**self._binds, **options.get("binds", {})}
        node = self._kind(fleet, directory, layers=layers, account=self.cloud.endpoint, **options)
        try:
            yield node
        finally:
            node.close()
            shutil.rmtree(directory)


def fleet(instance_type: str, **options: Any) -> Build:
    """Adds a fleet of one node to a site; options go to `GpuFleet`. Local disks are left alone by default."""

    def build(site: Site) -> GpuFleet:
        given = {
            "node_count": 1,
            "scratch": False,
            "vpc": site.vpc,
            "vpc_subnets": site.one_subnet,
            **options,
        }
        return GpuFleet(site.stack, "Trainers", instance_type=instance_type, **given)

    return build
