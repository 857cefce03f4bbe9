"""What `cdk diff` says has changed, without the rest, in lines that fit a screen."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile

_WIDTH = 96
_BEFORE = 12  # characters of what is the same that stand before a difference inside a long value
_AFTER = 48
_HEADER = re.compile(r"Stack (\S+)")
_CHANGE = re.compile(r"(?P<tree>[ │├└─]*)\[(?P<sign>[+~-])\] (?P<text>.*)")


def changes(diff: str) -> Iterator[str]:
    """The stacks with differences, and each difference."""
    stack, olds = "", list[str]()
    for line in diff.splitlines():
        header, change = _HEADER.match(line), _CHANGE.match(line)
        if header:
            stack = header[1]
        if change is None:
            continue
        if stack:
            yield f"stack {stack}"
            stack = ""
        tree, sign, text = change["tree"], change["sign"], change["text"]
        if tree and sign == "-":
            olds.append(text)
            continue
        old = olds.pop(0) if tree and sign == "+" and olds else None
        if old is not None:
            yield from _pair(tree, old, text)
        else:
            yield from (f"  {tree}[-] {_cut(left)}" for left in olds)
            olds.clear()
            yield f"  {tree}[{sign}] {_cut(text)}"
    yield from (f"  [-] {_cut(left)}" for left in olds)


def _pair(tree: str, old: str, new: str) -> Iterator[str]:
    """An old and a new value; of long ones what differs, and a little around it."""
    bare = " " * len(tree)
    if max(len(old), len(new)) <= _WIDTH:
        yield f"  {bare}[-] {old.strip()}"
        yield f"  {bare}[+] {new.strip()}"
        return
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))
    start = max(0, same - _BEFORE)
    for sign, text in (("-", old), ("+", new)):
        yield f"  {bare}[{sign}] … {text[start : same + _AFTER]} …"


def _cut(text: str) -> str:
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]} …"
