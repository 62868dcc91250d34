"""A real object store on this machine, for tests: SeaweedFS with its S3 interface, on free ports of the loopback."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import obstore
from obstore.store import S3Store

KEY, SECRET = "tidemark", "only-on-this-machine"
BUCKET: Final = "lakes"
_PORTS: Final = ("master", "volume", "filer", "s3")
_UP_SECONDS: Final = 60.0


@dataclass(frozen=True)
class ObjectServer:
    """A server that runs."""

    endpoint: str
    process: subprocess.Popen[bytes]

    @property
    def storage(self) -> dict[str, str]:
        """What ``options={"storage": …}`` needs to reach it."""
        return {"endpoint": self.endpoint, "access_key_id": KEY, "secret_access_key": SECRET, "region": "us-east-1"}

    def client(self, **changed: Any) -> S3Store:
        config: Any = {**self.storage, **changed}
        return S3Store(BUCKET, config=config, client_options={"allow_http": True})

    def url(self) -> str:
        """A place in the bucket where nothing is yet."""
        return f"s3://{BUCKET}/{uuid.uuid4().hex}"


@contextmanager
def object_server() -> Iterator[ObjectServer]:
    """Start a server, and end it by its id."""
    folder = Path(tempfile.mkdtemp(prefix="tidemark-objects-"))
    ports = _free_ports(2 * len(_PORTS))
    identity = {"name": KEY, "credentials": [{"accessKey": KEY, "secretKey": SECRET}]}
    allowed = folder / "s3.json"
    allowed.write_text(json.dumps({"identities": [{**identity, "actions": ["Admin", "Read", "Write", "List"]}]}))
    arguments = [str(Path(sys.executable).with_name("weed")), "server", f"-dir={folder}", "-ip=127.0.0.1"]
    arguments += [
        "-ip.bind=127.0.0.1",
        "-s3",
        "-s3.autoCreateBucket=false",
        f"-s3.config={allowed}",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
    ]
    arguments += ["-master.telemetry=false", "-master.volumeSizeLimitMB=64", "-volume.max=0"]
    for place, name in enumerate(_PORTS):
        arguments += [f"-{name}.port={ports[2 * place]}", f"-{name}.port.grpc={ports[2 * place + 1]}"]
    with open(folder / "server.log", "wb") as log:
        process = subprocess.Popen(arguments, stdout=log, stderr=log, cwd=folder, start_new_session=True)
    server = ObjectServer(f"http://127.0.0.1:{ports[2 * _PORTS.index('s3')]}", process)
    try:
        _wait_for(server, f"http://127.0.0.1:{ports[2 * _PORTS.index('filer')]}", folder / "server.log")
        yield server
    finally:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for(server: ObjectServer, filer: str, log: Path) -> None:
    """Until the bucket can be made and written to."""
    began, last = time.monotonic(), ""
    while time.monotonic() - began < _UP_SECONDS:
        try:
            # A bucket is a folder of the file server under it: no request has to be signed for it.
            urllib.request.urlopen(urllib.request.Request(f"{filer}/buckets/{BUCKET}/", method="POST"), timeout=2)
            obstore.put(server.client(), "ready", b"yes")
            return
        except Exception as error:
            last = str(error)
            if server.process.poll() is not None:
                break
            time.sleep(0.2)
    raise RuntimeError(f"the object store did not come up: {last}\n{log.read_text(errors='replace')[-2000:]}")


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
