"""Links of a page in the repository, turned into links of the site."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

#: A fenced block or a span of code, which are left alone, or the target of a link.
_CODE_OR_LINK = re.compile(
    r"^(?P<fence>`{3,}).*?^(?P=fence)$|(?P<span>`+)[^`\n]+(?P=span)(?!`)|(?<=\]\()(?P<link>[^()\s]+)(?=\))",
    re.MULTILINE | re.DOTALL,
)
_ELSEWHERE = re.compile(r"[a-z]+:|#")


class LinkError(Exception):
    """A link to a file of the repository that the site does not show."""


def relink(text: str, source: str, target: str, places: Mapping[str, str]) -> str:
    """Make the links of a page lead from place to place on the site.

    Args:
        text: Its Markdown.
        source: Where it stands in the repository.
        target: Where it stands on the site.
        places: File of the repository -> its place on the site.

    Raises:
        LinkError: If a link leads to a file that has no place on the site.
    """

    def relinked(found: re.Match[str]) -> str:
        link = found["link"]
        if link is None or _ELSEWHERE.match(link):
            return found[0]
        file, hash_sign, anchor = link.partition("#")
        wanted = posixpath.normpath(posixpath.join(posixpath.dirname(source), file))
        if wanted not in places:
            raise LinkError(f"{source}: the site has no page for {link}")
        return posixpath.relpath(places[wanted], posixpath.dirname(target) or ".") + hash_sign + anchor

    return _CODE_OR_LINK.sub(relinked, text)
