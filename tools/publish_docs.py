"""Put a built documentation site beside those of other versions.

    python tools/publish_docs.py FOLDER VERSION            build/docs/site into FOLDER/VERSION
    python tools/publish_docs.py FOLDER VERSION --latest   it is also what FOLDER/ and FOLDER/latest/ lead to

`FOLDER/versions.json` lists the versions, the newest first; the select in the header of every version reads it. The
file has the form that mike writes, which is what Zensical reads.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from docs_site import FOLDER as BUILT

LATEST = "latest"
_REDIRECT = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>cdk-gpu-clusters</title>
<meta http-equiv="refresh" content="0; url={target}"></head>
<body><p>The documentation is in <a href="{target}">{target}</a>.</p></body></html>
"""


def publish(site: Path, folder: Path, version: str, *, is_latest: bool) -> None:
    """Copy a site, and list its version.

    Args:
        site: The built site.
        folder: Where all versions are.
        version: Its version, such as `0.1` or `0.2.0rc1`.
        is_latest: Whether it becomes the version that readers get without a choice.

    Raises:
        InvalidVersion: If the version is not one of PEP 440.
        FileNotFoundError: If nothing was built.
    """
    Version(version)
    if not (site / "index.html").is_file():
        raise FileNotFoundError(f"{site} has no index.html: run make docs")
    shutil.rmtree(folder / version, ignore_errors=True)
    shutil.copytree(site, folder / version)
    listing = folder / "versions.json"
    listed: list[dict[str, Any]] = json.loads(listing.read_text("utf-8")) if listing.exists() else []
    others = [one for one in listed if one["version"] != version]
    if is_latest:
        others = [{**one, "aliases": []} for one in others]
        (folder / LATEST).mkdir(exist_ok=True)
        (folder / "index.html").write_text(_REDIRECT.format(target=f"{version}/index.html"), "utf-8")
        (folder / LATEST / "index.html").write_text(_REDIRECT.format(target=f"../{version}/index.html"), "utf-8")
    before: list[str] = next((one["aliases"] for one in listed if one["version"] == version), [])
    entry = {"version": version, "title": version, "aliases": [LATEST] if is_latest else before}
    versions = sorted([*others, entry], key=lambda one: Version(one["version"]), reverse=True)
    listing.write_text(json.dumps(versions, indent=2) + "\n", "utf-8")


def main() -> int:
    """Publish; the exit status is 1 if nothing was built or the version is none."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("version")
    parser.add_argument("--latest", action="store_true", help="readers without a choice get this version")
    parser.add_argument("--site", type=Path, default=BUILT / "site", help="the built site")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    try:
        publish(options.site, options.folder, options.version, is_latest=options.latest)
    except (FileNotFoundError, InvalidVersion) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
