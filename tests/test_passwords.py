"""What a program hands over to reach a store shows nowhere: in no error, no log and no representation."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import tidemark as tm
from tidemark.cli.main import app
from tidemark.errors import Place, TidemarkError
from tidemark.storage.bucket import place_of

SECRET = "only+Between/us0123"
KEYS = {"access_key_id": "a", "secret_access_key": "b", "region": "us-east-1"}
PLAIN = SECRET.replace("/", "")
TARGETS = [
    f"{scheme}://{user}@{bucket}/lake"
    for scheme, bucket in (("s3", "lakes"), ("s3a", "lakes"), ("gs", "lakes"), ("https", "host"), ("abfss", "c@a.net"))
    for user in (f"key:{SECRET}", f"key:{PLAIN}", f":{PLAIN}")
]


def told(action: Callable[[], object]) -> TidemarkError:
    """The error of an action, of which nothing shows the secret: neither its words nor what it comes from."""
    with pytest.raises(TidemarkError) as caught:
        action()
    shown = "".join(
        "".join(traceback.format_exception_only(error)) + repr(error) + repr(getattr(error, "hint", ""))
        for error in _chain(caught.value)
    )
    assert SECRET not in shown and PLAIN not in shown, shown
    return caught.value


def _chain(error: BaseException | None) -> list[BaseException]:
    return [] if error is None else [error, *_chain(error.__cause__), *_chain(error.__context__)]


@pytest.mark.parametrize("url", TARGETS)
def test_a_url_with_a_password_is_refused_and_not_shown(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    caplog.set_level(logging.DEBUG)
    storage: dict[str, Any] = {} if url.startswith("https") else {"options": {"storage": KEYS}}
    for engine in ("spark:", "duckdb:", "reference:", ""):
        given = storage if engine == "spark:" else {}
        error = told(lambda engine=engine, given=given: tm.connect(f"{engine}{url}", **given))  # type: ignore[misc]
        assert error.code in ("target", "unsupported")
    if not url.startswith("https"):
        assert "storage" in (told(lambda: place_of(url, KEYS)).hint or "")
    with tm.connect("duckdb", allow_paths=[tmp_path]) as db:
        told(lambda: db.backup(url))
        told(lambda: db.execute(f"BACKUP TO '{url}'"))
        told(lambda: db.execute(f"CREATE SOURCE s TYPE delta OPTIONS (path '{url}')"))
    shown = CliRunner().invoke(app, ["check", f"spark:{url}"])
    assert shown.exit_code and SECRET not in shown.output and PLAIN not in shown.output
    assert SECRET not in caplog.text and PLAIN not in caplog.text


@pytest.mark.parametrize("name", ["endpoint", "aws_endpoint_url", "AWS_ENDPOINT_URL_S3"])
def test_an_endpoint_with_a_password_is_refused_and_not_shown(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = f"http://user:{SECRET}@127.0.0.1:9"
    if name.isupper():
        monkeypatch.setenv(name, endpoint)
        storage = KEYS
    else:
        storage = {**KEYS, name: endpoint}
    error = told(lambda: tm.connect("spark:s3://lakes/x", options={"storage": storage}, read_only=True))
    assert error.code == "option" and "access_key_id" in (error.hint or "")
    told(lambda: tm.connect("spark:s3://lakes/x", options=[("storage", storage | {"secret_access_key": SECRET})]))  # type: ignore[arg-type]
    monkeypatch.undo()
    assert SECRET not in repr(place_of("s3://lakes/x", {"secret_access_key": SECRET}))


def test_places_without_a_password_are_shown_as_they_are() -> None:
    for url in ("abfss://box@account.dfs.core.windows.net/lake", "s3://lakes/me@here/lake"):
        assert place_of(url, {}).url == url
    for text in ("http://127.0.0.1:80/me@here", "s3://a/b", "a:b@c", "x: http://h and you@there"):
        assert TidemarkError("option", text, hint=text).message == text
    assert TidemarkError("option", "no 'http://me:you@there:80/x'").message == "no 'http://…@there:80/x'"
    pointer = Place(1, 30, "POST 'http://me:you@there/x', what").pointer().splitlines()
    assert pointer[1] == "  POST 'http://………………@there/x', what" and pointer[2].index("^") == 31
