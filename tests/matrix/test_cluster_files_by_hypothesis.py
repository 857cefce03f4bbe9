"""What is too much to enumerate: whole cluster files, with numbers, subnets, volumes, layouts, mounts and several fleets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from ruamel.yaml import YAML

from matrix.cluster_files import ClusterFile, cluster_files
from matrix.clusters import judge
from matrix.seeded_faults import FAULTS

EXAMPLES = 100


def hold(seen: Counter[str], *phases: Phase) -> None:
    """Hold cluster files against the invariants, and what is refused against its findings."""

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        phases=phases,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(file=cluster_files())
    def keeps_every_invariant(file: ClusterFile) -> None:
        note(str(file))
        judgement = judge(file)
        seen.update(["accepted" if judgement.nodes else "refused"])
        seen["fleets"] += len(judgement.nodes)
        seen["of PCS"] += any(nodes.compute_node_group is not None for nodes in judgement.nodes.values())
        assert judgement.nodes or judgement.refusals
        broken = [f"{name}: {each.id}: {each.what}" for name, each in judgement.violations]
        assert [*broken, *judgement.fired] == []

    keeps_every_invariant()


def test_a_cluster_file_is_refused_with_its_reasons_or_keeps_every_invariant(
    tally: Callable[[str], None],
) -> None:
    seen: Counter[str] = Counter()
    hold(seen, Phase.generate, Phase.shrink)
    tally(
        f"cluster files of Hypothesis: {seen['accepted']} synthesized with {seen['fleets']} fleets, "
        f"{seen['refused']} refused; {seen['of PCS']} of those synthesized on AWS PCS"
    )
    assert seen["accepted"] >= EXAMPLES // 5


def test_what_fails_is_printed_as_a_short_cluster_file_that_fails_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (fault,) = [fault for fault in FAULTS if fault.invariant == "volume-limits"]
    fault.plant(monkeypatch)
    with pytest.raises(AssertionError) as caught:
        hold(Counter(), Phase.generate, Phase.shrink)
    (printed,) = [text for text in caught.value.__notes__ if "version: 1" in text]
    data = YAML(typ="safe").load(printed.partition("\n")[2])
    assert len(data["training"]["fleets"]) == 1
    assert {each.id for _, each in judge(ClusterFile(data)).violations} == {fault.invariant}
