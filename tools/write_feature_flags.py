"""Write the feature flags that the locked aws-cdk-lib recommends, or check that those checked in are current.

python tools/write_feature_flags.py            write them
python tools/write_feature_flags.py --check    exit 1 if they are not current
"""

from __future__ import annotations

import json

from _pages import write_or_check
from cdk_gpu_clusters_stacks.project.cdk_flags import FLAGS_FILE, flags_of_library

if __name__ == "__main__":
    raise SystemExit(write_or_check(__doc__, FLAGS_FILE, json.dumps(flags_of_library(), indent=2) + "\n"))
