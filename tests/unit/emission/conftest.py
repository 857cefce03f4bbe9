"""An account in which the state machines run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import jsonata
import pytest
from moto import mock_aws
from moto.stepfunctions.parser.asl.jsonata import jsonata as moto_jsonata


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An account of moto, to which an interpreter of JSONata and times as text are given; it has neither."""

    def evaluate(expression: str) -> Any:
        return json.loads(json.dumps(jsonata.Jsonata(expression).evaluate({})))

    monkeypatch.setattr(moto_jsonata, "_eval_jsonata", evaluate)
    monkeypatch.setattr(moto_jsonata, "to_json_str", partial(json.dumps, default=str))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws(config={"stepfunctions": {"execute_state_machine": True}}):
        yield
