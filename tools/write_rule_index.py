"""Write the index of all rules that `gpu-clusters explain` reads, or check that it is current.

python tools/write_rule_index.py            write it
python tools/write_rule_index.py --check    exit 1 if it is not current
"""

from __future__ import annotations

import json

from _pages import write_or_check
from cdk_gpu_clusters_stacks.cli.rule_index import INDEX_FILE
from write_rules_page import AREAS, every_rule


def index() -> dict[str, dict[str, str]]:
    """Title, area and source of each rule by its id."""
    return {row.id: {"title": row.title, "area": AREAS[row.area], "source": row.source} for row in every_rule()}


if __name__ == "__main__":
    text = json.dumps(index(), indent=1, ensure_ascii=False) + "\n"
    raise SystemExit(write_or_check(__doc__, INDEX_FILE, text))
