"""What is too much to enumerate: whole cluster files, with numbers, subnets, volumes, layouts, mounts and several fleets."""

from __future__ import annotations

from collections import Counter

from hypothesis import HealthCheck, Phase, given, note, settings

from matrix.cluster_files import ClusterFile, cluster_files
from matrix.clusters import judge

EXAMPLES = 100


def test_a_cluster_file_is_refused_with_its_reasons_or_keeps_every_invariant(tally: list[str]) -> None:
    """What fails is printed as the shortest cluster file that fails."""
    seen: Counter[str] = Counter()

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        phases=(Phase.reuse, Phase.generate, Phase.shrink),
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(file=cluster_files())
    def keeps_every_invariant(file: ClusterFile) -> None:
        note(str(file))
        judgement = judge(file)
        seen.update(["accepted" if judgement.nodes else "refused"])
        seen["fleets"] += len(judgement.nodes)
        assert judgement.nodes or judgement.refusals
        assert [f"{name}: {each.id}: {each.what}" for name, each in judgement.violations] == []

    keeps_every_invariant()
    tally.append(
        f"cluster files of Hypothesis: {seen['accepted']} synthesized with {seen['fleets']} fleets, "
        f"{seen['refused']} refused"
    )
    assert seen["accepted"] >= EXAMPLES // 5
