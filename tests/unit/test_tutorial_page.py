"""Every block of the tutorial is run by `make tutorial` or written to a file there, and outputs are compared as stated."""

from __future__ import annotations

import re

import pytest

from cdk_gpu_clusters.catalogue.instances import AcceleratorKind, instance_types
from cdk_gpu_clusters.catalogue.prices import newest_price
from tutorial.page import PAGE, VARYING, PageError, agrees, sections, with_outputs

TEXT = PAGE.read_text(encoding="utf-8")
HEAD = "# Title\n\n## First\n\n"


def test_every_block_of_the_page_is_run_or_is_a_file() -> None:
    found = sections(TEXT)
    assert len(found) >= 8
    assert sum(len(one.blocks) for one in found) == len(re.findall(r"^```\w+$", TEXT, re.MULTILINE))
    commands = [command.text for one in found for block in one.blocks for command in block.commands]
    assert any(command.startswith("gpu-clusters run ") and "torchrun" in command for command in commands)
    assert [block for one in found for block in one.blocks if block.after] != []


def test_few_commands_need_an_account() -> None:
    blocks = [block for section in sections(TEXT) for block in section.blocks]
    assert sum(block.on_aws_only for block in blocks) <= 2


def test_the_nodes_with_efa_are_the_cheapest_ones() -> None:
    """As the page states; on demand, with NVIDIA GPUs."""
    prices = {
        name: price.usd
        for name, one in instance_types().items()
        if one.supports_efa and one.accelerator and one.accelerator.kind is AcceleratorKind.GPU
        if (price := newest_price(name, "us-east-1"))
    }
    assert len(prices) > 20
    cheapest = min(prices, key=lambda name: prices[name])
    assert f"instance_type: {cheapest}\n" in TEXT
    assert f"{2 * prices[cheapest]:.2f} USD an hour" in TEXT


@pytest.mark.parametrize(
    "block",
    [
        "```sh\nls\n```\n",
        "```console\nls\n```\n",
        "<!-- soon -->\n```console\n$ ls\n```\n",
        "```yaml\na: 1\n```\n",
    ],
)
def test_a_block_that_nothing_runs_is_refused(block: str) -> None:
    with pytest.raises(PageError, match="neither commands nor a file"):
        sections(HEAD + block)


def test_commands_have_their_outputs() -> None:
    (section,) = sections(HEAD + "```console\n$ one\n1\n$ two\n$ three\n3\n\n4\n```\n")
    (block,) = section.blocks
    outputs = [(command.text, command.output) for command in block.commands]
    assert outputs == [("one", "1\n"), ("two", ""), ("three", "3\n\n4\n")]


@pytest.mark.parametrize(
    ("stated", "printed", "same"),
    [
        ("a\nb\n", "a\nb\n", True),
        ("a\nb\n", "a\nc\n", False),
        ("a\n", "a\nb\n", False),
        ("", "a\n", False),
        ("a\n...\n", "a\nb\nc\n", True),
        ("...\nc\n", "a\nb\nc\n", True),
        ("...\nb\n", "a\nb\nc\n", False),
        ("a\n...\nc\n", "a\nc\n", True),
        ("a\n...\na\n", "a\n", False),
        ("...\nb\n...\na\n...\n", "a\nb\nc\n", False),
        ("...\nb\n...\nc\n...\n", "a\nb\nc\n", True),
        ("step 20: loss 5.61\n", "step 20: loss 4.99\n", True),
        ("step 20: loss 5.61\n", "step 30: loss 5.61\n", False),
        ("costs 0.80 USD\n", "costs 0.81 USD\n", False),
        ("ip-10-0-1-2 | done\n", "ip-10-0-44-5 | done\n", True),
    ],
)
def test_an_output_agrees(stated: str, printed: str, same: bool) -> None:
    assert agrees(stated, printed) is same


def test_every_rule_of_what_varies_is_needed() -> None:
    unused = [name for pattern, name in VARYING if not re.search(pattern, TEXT)]
    assert unused == []


def test_an_update_changes_the_outputs_that_differ() -> None:
    page = HEAD + "```console\n$ one\n...\n1\n$ two\n2\n$ three\n3\n```\n\nEnd.\n"
    (block,) = sections(page)[0].blocks
    renewed = with_outputs(page, {block.start: ["0\n1\n", "new\n"]})
    assert renewed == page.replace("\n2\n", "\nnew\n")
