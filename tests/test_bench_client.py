"""The benchmark of views at the client runs, and checks its answers. How long anything takes is no matter here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from tidemark.cli.main import app
from tidemark.cli.show import Display
from tidemark.cli.spinner import Status
from tidemark.client import LocalView
from tidemark.errors import TidemarkError
from tidemark_bench import client
from tidemark_bench.harness.run import Run

pytestmark = pytest.mark.slow


def test_views_at_the_client_are_measured_from_the_command_line(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["bench", "--client", "--quick", "--data", str(tmp_path)])
    assert result.exit_code == 0, result.output
    report = json.loads((tmp_path / "client.json").read_text())["reports"][0]
    assert [view["view"] for view in report["views"]] == list(client.VIEWS)
    kinds: set[str] = set()
    for view in report["views"]:
        assert len(view["refreshed"]) == report["transactions"] == 20
        for one in view["refreshed"]:
            assert one["holder_bytes"] <= min(one["view_changes_bytes"], one["whole_bytes"])
            assert one["local_bytes"] <= one["base_changes_bytes"]
        assert sum(view["holder_kinds"].values()) == 20
        kinds |= view["holder_kinds"].keys() | view["local_kinds"].keys()
    assert kinds == {"nothing", "statements", "changes", "state", "base changes"}
    for word in ("whole results", "to a holder", "to a local view", "local view: client"):
        assert word in result.output


def test_wrong_answers_are_not_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalView, "apply", lambda self, data: setattr(self, "tidemark", self.tidemark))
    console = Console(quiet=True)
    display = Display(console, None)
    with pytest.raises(TidemarkError, match="differs from the server's answer"):
        client.measured(300, 3, Run(tmp_path, display, display, Status(console)))


def test_the_client_alone_is_measured(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["bench", "--client", "--snapshots", "--data", str(tmp_path)])
    assert result.exit_code != 0
