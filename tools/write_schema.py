"""Write the JSON Schema of the cluster file, or check that the one checked in is current.

python tools/write_schema.py            write it
python tools/write_schema.py --check    exit 1 if it is not current
"""

from __future__ import annotations

from _pages import write_or_check
from cdk_gpu_clusters_stacks.spec.schema import SCHEMA_FILE, schema_text

if __name__ == "__main__":
    raise SystemExit(write_or_check(__doc__, SCHEMA_FILE, schema_text()))
