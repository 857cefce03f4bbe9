"""Digests come from the registry, and nothing else of the catalogue changes."""

from __future__ import annotations

import importlib.util
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]
CATALOGUE = ROOT / "constructs/cdk_gpu_clusters/catalogue/data/kubernetes_software.json"
DIGEST, OTHER = "sha256:" + "a" * 64, "sha256:" + "b" * 64


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("refresh_image_digests", ROOT / "tools/refresh_image_digests.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "software.json"
    made.write_text(CATALOGUE.read_text())
    return made


class Registry(BaseHTTPRequestHandler):
    """A registry that gives digests to those with an anonymous token."""

    def do_GET(self) -> None:
        assert self.path == "/token?service=registry&scope=repository%3Alws%2Flws%3Apull"
        self.answer(200, {}, b'{"token": "anonymous"}')

    def do_HEAD(self) -> None:
        host = self.headers["Host"]
        asks = f'Bearer realm="http://{host}/token",service="registry",scope="repository:lws/lws:pull"'
        if self.headers["Authorization"] != "Bearer anonymous":
            self.answer(401, {"WWW-Authenticate": asks})
        elif self.path == "/v2/lws/lws/manifests/v0.10.0" and "image.index" in self.headers["Accept"]:
            self.answer(200, {"docker-content-digest": DIGEST})
        else:
            self.answer(200, {})

    def answer(self, status: int, headers: dict[str, str], body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def registry() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_registry_is_asked_with_an_anonymous_token(tool: ModuleType, registry: str) -> None:
    assert tool.digest_of(f"{registry}/lws/lws", "v0.10.0", scheme="http") == DIGEST
    with pytest.raises(ValueError, match="answers no digest"):
        tool.digest_of(f"{registry}/lws/lws", "v9", scheme="http")


def test_new_digests_are_written_and_nothing_else(tool: ModuleType, file: Path) -> None:
    before = json.loads(file.read_text())
    known = {one["repository"]: one["digest"] for one in before["images"] if one["digest"]}
    assert tool.main([], file=file, lookup=lambda repository, _: known.get(repository, DIGEST)) == 0
    after = json.loads(file.read_text())
    for old, new in zip(before["images"], after["images"], strict=True):
        private = ".dkr.ecr." in old["repository"]
        assert new == {**old, "digest": old["digest"] if private or old["digest"] else DIGEST}
    assert {**after, "images": 0} == {**before, "images": 0}
    assert tool.main(["--check"], file=file, lookup=lambda repository, _: known.get(repository, DIGEST)) == 0


def test_a_tag_that_moved_is_reported_first(tool: ModuleType, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = file.read_text()
    assert tool.main(["--check"], file=file, lookup=lambda *_: OTHER) == 1
    assert "moved from sha256:" in capsys.readouterr().err
    assert file.read_text() == before
    assert tool.main(["--move"], file=file, lookup=lambda *_: OTHER) == 0
    public = [one for one in json.loads(file.read_text())["images"] if ".dkr.ecr." not in one["repository"]]
    assert {one["digest"] for one in public} == {OTHER}


def test_a_registry_out_of_reach_changes_nothing(tool: ModuleType, file: Path) -> None:
    def fail(*_: str) -> str:
        raise ValueError("no route")

    before = file.read_text()
    assert tool.main([], file=file, lookup=fail) == 1
    assert file.read_text() == before
