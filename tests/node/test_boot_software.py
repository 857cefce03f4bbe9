"""Nodes whose software comes from S3."""

from __future__ import annotations

from cdk_gpu_clusters import NodeFile
from nodebox.lab import Lab, fleet

L4 = {"gpu": "L4", "gpu_count": 1}
FROM_S3 = fleet("g6.xlarge", node_files=[NodeFile(path="/opt/app/table", text="1\n", early=False)])


def test_a_node_fetches_its_software_at_its_first_boot_only(lab: Lab) -> None:
    with lab.node(FROM_S3, **L4) as node:
        node.power_on()
        node.ready()
        node.in_service()
        assert node.run("cat /opt/app/table").stdout == "1\n"
        node.fleet.overwrite_assets(None)
        node.reboot()
        node.ready()


def test_software_that_is_missing_ends_the_launch(lab: Lab) -> None:
    with lab.node(FROM_S3, **L4) as node:
        node.fleet.overwrite_assets(None)
        node.power_on()
        reason = node.failure()
        assert reason.startswith("software: s3://assets-")
        assert "NoSuchKey" in reason
        assert "was it deleted?" in reason
        assert node.abandoned() == reason.removeprefix("software: ")


def test_software_with_other_bytes_is_not_unpacked_and_ends_the_launch(lab: Lab) -> None:
    with lab.node(FROM_S3, **L4) as node:
        node.fleet.overwrite_assets(b"other bytes")
        node.power_on()
        reason = node.failure()
        assert "its sha256 is " in reason
        assert node.abandoned() == reason.removeprefix("software: ")
        assert not node.read("/usr/local/bin/gpunode")


def test_no_way_to_s3_ends_the_launch_at_the_deadline(lab: Lab) -> None:
    with lab.node(FROM_S3, s3=False, **L4) as node:
        node.power_on(uptime_seconds=1490)
        reason = node.failure()
        assert "onnect" in reason
        assert "does the subnet reach S3" in reason
        assert node.abandoned() == reason.removeprefix("software: ")
