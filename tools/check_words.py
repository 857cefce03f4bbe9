"""Look for the words of tools/banned_words.txt in public text.

    python tools/check_words.py                 name each one; exit 1 if there are any
    python tools/check_words.py --report        count them for each folder
    python tools/check_words.py FOLDER...       look only below these folders, or into these files

Public text is every Markdown page, drawing and example, and the docstrings and messages of the product. Code in
backticks and code blocks are left out, and so are strings without a blank: those are names.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from _pages import ROOT

WORDS = ROOT / "tools" / "banned_words.txt"
PRODUCT = ("constructs", "stacks", "emulator")
#: What is code in Markdown and in docstrings: a block between fences, a line of a doctest, a span between backticks.
CODE = re.compile(r"^ *```.*?^ *```|^ *(?:>>>|\.\.\.) .*?$|(`+)(?!`).+?(?<!`)\1(?!`)", re.MULTILINE | re.DOTALL)
TAGS = re.compile(r"<!--.*?-->|<style.*?</style>|<[^>]*>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Words:
    """The banned words and phrases.

    Attributes:
        instead: Word, in small letters, to what replaces it.
        allowed: Phrases of other people.
    """

    instead: Mapping[str, str]
    allowed: tuple[str, ...]

    @classmethod
    def read(cls, text: str) -> Words:
        """The words of a file like tools/banned_words.txt."""
        banned, _, allowed = text.partition("\n[allowed]\n")
        pairs = [line.partition(" = ") for line in _entries(banned)]
        return cls({word.lower(): instead for word, _, instead in pairs}, tuple(_entries(allowed)))

    def found(self, text: str) -> Iterator[tuple[int, str]]:
        """Each banned word of a text, with the line of the text that it is on, from 0."""
        for phrase in self.allowed:
            text = re.sub(_pattern([phrase]), _blank, text)
        for match in re.finditer(_pattern(self.instead), text, re.IGNORECASE):
            yield text.count("\n", 0, match.start()), re.sub(r"\s+", " ", match[0]).lower()


@dataclass(frozen=True, slots=True)
class Finding:
    """A banned word in a file of the repository."""

    file: str
    line: int
    word: str


def prose(text: str) -> str:
    """Markdown without its code; the lines keep their numbers."""
    return CODE.sub(_blank, text)


def texts(file: PurePosixPath, content: str) -> Iterator[tuple[int, str]]:
    """The public texts of a file, each with the line that it starts on."""
    match file.suffix:
        case ".md":
            yield 1, prose(content)
        case ".svg":
            yield 1, TAGS.sub(_blank, content)
        case ".yaml":
            yield 1, "\n".join(line.partition("#")[2] for line in content.splitlines())
        case ".py":
            for node in ast.walk(ast.parse(content)):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
                    yield node.lineno, prose(node.value)


def public_files() -> list[str]:
    """The files with public text, from the root of the repository."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    files = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return sorted(file for file in set(files) if _is_public(PurePosixPath(file)) and (ROOT / file).exists())


def findings(files: Iterable[str], words: Words) -> Iterator[Finding]:
    """Every banned word in files of the repository."""
    for file in files:
        content = (ROOT / file).read_text(encoding="utf-8")
        for start, text in texts(PurePosixPath(file), content):
            yield from (Finding(file, start + line, word) for line, word in words.found(text))


def main() -> int:
    """Check, or count; the exit status of the program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--report", action="store_true", help="count the words of each folder; exit 0")
    parser.add_argument("paths", nargs="*", metavar="FOLDER", help="look only here")
    options = parser.parse_args()
    words = Words.read(WORDS.read_text(encoding="utf-8"))
    paths = tuple(Path(path).resolve().relative_to(ROOT) for path in options.paths)
    files = [file for file in public_files() if not paths or any(Path(file).is_relative_to(p) for p in paths)]
    found = list(findings(files, words))
    if options.report:
        for folder, count in sorted(Counter(str(Path(one.file).parent) for one in found).items()):
            print(f"{count:6} {folder}")
        print(f"{len(found):6} in all")
        return 0
    for one in found:
        print(f"{one.file}:{one.line}: {one.word}: write {words.instead[one.word]}", file=sys.stderr)
    return 1 if found else 0


def _is_public(file: PurePosixPath) -> bool:
    match file.suffix:
        case ".md":
            return file.parts[0] != "tests"
        case ".svg":
            return file.parts[0] == "docs"
        case ".yaml":
            return file.parts[0] == "examples"
        case ".py":
            return file.parts[0] in {*PRODUCT, "examples"}
    return False


def _entries(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def _pattern(phrases: Iterable[str]) -> str:
    """The phrases as words of their own, the longest first, over the ends of lines."""
    longest = sorted(phrases, key=len, reverse=True)
    either = "|".join(r"\s+".join(map(re.escape, phrase.split())) for phrase in longest)
    return rf"(?<![\w-])(?:{either})(?![\w-])"


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])


if __name__ == "__main__":
    sys.exit(main())
