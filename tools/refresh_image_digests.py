#!/usr/bin/env python3
"""Ask the registries for the digests of the catalogue's container images, and write them.

    python tools/refresh_image_digests.py            # write what the registries answer
    python tools/refresh_image_digests.py --check    # write nothing, exit 1 if a digest differs or is missing

It needs a way to the public registries. Images in the private registries of EKS need credentials, and are left out:
`aws ecr describe-images` has their digests. A tag that moved to another digest is reported, and written only with
`--move`.

Source: OCI distribution specification 1.1, "Checking if content exists" (HEAD of a manifest, Docker-Content-Digest);
Docker's registry documentation, "Token Authentication Specification" (anonymous tokens).
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Mapping
from email.message import Message
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

FILE = Path(__file__).parents[1] / "constructs/cdk_gpu_clusters/catalogue/data/kubernetes_software.json"
_INDEXES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_PRIVATE = re.compile(r"\d{12}\.dkr\.ecr\.")
_SECONDS = 20
#: Registries whose API has another name.
_HOSTS = {"docker.io": "registry-1.docker.io"}

#: The digest that a registry has for a repository and a tag.
Lookup = Callable[[str, str], str]


def main(arguments: list[str] | None = None, *, file: Path = FILE, lookup: Lookup | None = None) -> int:
    """Run the tool; the result is the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if something differs")
    parser.add_argument("--move", action="store_true", help="also write the digest of a tag that moved")
    options = parser.parse_args(arguments)
    text = file.read_text(encoding="utf-8")
    found, problems = _found(text, lookup or digest_of, move=options.move)
    for line in problems:
        sys.stderr.write(f"{line}\n")
    for name, digest in found.items():
        sys.stdout.write(f"{name}: {digest}\n")
        text = with_digest(text, name, digest)
    if found and not options.check:
        file.write_text(text, encoding="utf-8")
    return 1 if problems or (options.check and found) else 0


def _found(text: str, lookup: Lookup, *, move: bool) -> tuple[dict[str, str], list[str]]:
    """New digests by image, and what could not be settled."""
    found, problems = {}, []
    for image in json.loads(text)["images"]:
        name, known = image["name"], image["digest"]
        if _PRIVATE.match(image["repository"]):
            continue
        try:
            digest = lookup(image["repository"], image["tag"])
        except (URLError, ValueError) as reason:
            problems.append(f"{name}: {reason}")
            continue
        if known not in (None, digest) and not move:
            problems.append(f"{name}: the tag {image['tag']} moved from {known} to {digest}")
        elif digest != known:
            found[name] = digest
    return found, problems


def with_digest(text: str, name: str, digest: str) -> str:
    """The catalogue with another digest of one image; every other character stays."""
    field = re.compile(rf'(\{{"name": "{re.escape(name)}", "repository": [^\n]*?"digest": )(?:null|"[^"]*")')
    changed, count = field.subn(rf'\g<1>"{digest}"', text)
    if count != 1:
        raise ValueError(f"{name} is there {count} times")
    return changed


def digest_of(repository: str, tag: str, *, scheme: str = "https") -> str:
    """What a registry answers for a tag; ValueError if that is no digest."""
    host, _, path = repository.partition("/")
    url = f"{scheme}://{_HOSTS.get(host, host)}/v2/{path}/manifests/{tag}"
    try:
        headers = _head(url, {})
    except HTTPError as error:
        if error.code != 401:
            raise
        headers = _head(url, {"Authorization": f"Bearer {_token(error.headers.get('WWW-Authenticate', ''))}"})
    digest = headers.get("Docker-Content-Digest", "")
    if not _DIGEST.fullmatch(digest):
        raise ValueError(f"{url} answers no digest: {digest!r}")
    return digest


def _head(url: str, headers: Mapping[str, str]) -> Message:
    asked = Request(url, method="HEAD", headers={"Accept": ", ".join(_INDEXES), **headers})  # noqa: S310 - from the catalogue
    with urlopen(asked, timeout=_SECONDS) as answer:  # noqa: S310
        found: Message = answer.headers  # its names have no case
        return found


def _token(challenge: str) -> str:
    fields = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
    if "realm" not in fields:
        raise ValueError(f"the registry asks for another login: {challenge!r}")
    url = f"{fields['realm']}?{urlencode({key: fields[key] for key in ('service', 'scope') if key in fields})}"
    with urlopen(url, timeout=_SECONDS) as answer:  # noqa: S310
        document = json.load(answer)
    return str(document.get("token") or document["access_token"])


if __name__ == "__main__":
    sys.exit(main())
