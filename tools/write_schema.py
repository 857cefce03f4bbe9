"""Write the JSON Schema of the cluster file, or check that the one checked in is current.

python tools/write_schema.py            write it
python tools/write_schema.py --check    exit 1 if it is not current
"""

from __future__ import annotations

import argparse
import sys

from cdk_gpu_clusters_stacks.spec.schema import SCHEMA_FILE, schema_text


def main() -> int:
    """Write or check."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 if the file is not current"
    )
    text = schema_text()
    if not parser.parse_args().check:
        SCHEMA_FILE.write_text(text, encoding="utf-8")
        return 0
    if SCHEMA_FILE.exists() and SCHEMA_FILE.read_text(encoding="utf-8") == text:
        return 0
    print(f"{SCHEMA_FILE} is not current: run python tools/write_schema.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
