"""Without the extra `testing` the message says how to get it."""

from __future__ import annotations

import pytest

from cdk_gpu_clusters.testing._extra import optional_module, require_packages


@pytest.mark.parametrize("ask", [optional_module, require_packages])
def test_a_missing_package_names_the_extra(ask: object) -> None:
    assert callable(ask)
    with pytest.raises(
        ImportError, match=r"'no_such_emulator'; install it with: pip install 'cdk-gpu-clusters\[testing\]'"
    ):
        ask("no_such_emulator")


def test_a_fault_inside_a_package_is_not_hidden(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("packages")
    (folder / "half_there.py").write_text("import no_such_emulator\n")
    monkeypatch.syspath_prepend(folder)
    with pytest.raises(ModuleNotFoundError, match="No module named 'no_such_emulator'"):
        optional_module("half_there")
