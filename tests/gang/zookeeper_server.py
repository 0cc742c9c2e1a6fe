"""A real ZooKeeper server (Debian package zookeeper) on a port of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from pathlib import Path

CLASSES = os.environ.get("ZOOKEEPER_CLASSES", "/etc/zookeeper/conf_example:/usr/share/java/*")
MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
START_SECONDS = 60.0


class ZooKeeperServer:
    """Started and stopped by the test; it keeps its data when it is started again."""

    def __init__(self, place: Path) -> None:
        place.mkdir()
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self._settings = place / "zoo.cfg"
        self._log = (place / "log").open("ab")
        self._settings.write_text(
            f"tickTime=500\ndataDir={place / 'data'}\nclientPort={self.port}\nclientPortAddress=127.0.0.1\n"
            "admin.enableServer=false\nmaxSessionTimeout=20000\n"
        )
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        command = ["java", "-Xmx128m", "-cp", CLASSES, MAIN, str(self._settings)]
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log, stdin=subprocess.DEVNULL)
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.1)
        raise AssertionError("ZooKeeper does not answer")

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def close(self) -> None:
        self.stop()
        self._log.close()
