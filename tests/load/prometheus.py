"""A real Prometheus that scrapes an exporter of the test: traffic of nodes as the test wants it."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen


@dataclass
class Traffic:
    """Shaped as node-exporter's metrics; counters grow at the rates that are set."""

    rates: dict[str, float]  # bytes per second received, by node
    _sent: dict[str, float] = field(default_factory=dict)
    _since: float = field(default_factory=time.monotonic)
    _began: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def set(self, **rates: float) -> None:
        with self._lock:
            self._grow()
            self.rates |= {name.replace("_", "-"): rate for name, rate in rates.items()}

    def _grow(self) -> None:
        now = time.monotonic()
        for node, rate in self.rates.items():
            self._sent[node] = self._sent.get(node, 0.0) + rate * (now - self._since)
        self._since = now

    def page(self) -> bytes:
        with self._lock:
            self._grow()
            lines = ["# TYPE node_network_receive_bytes_total counter"]
            for node, sent in self._sent.items():
                lines.append(f'node_network_receive_bytes_total{{node="{node}",device="eth0"}} {sent:.0f}')
                for other in ("lo", "cilium_host"):  # a thousand times busier, and nobody's business
                    busy = 1e10 * (time.monotonic() - self._began)
                    lines.append(f'node_network_receive_bytes_total{{node="{node}",device="{other}"}} {busy:.0f}')
                lines.append(f'node_netstat_Tcp_CurrEstab{{node="{node}"}} 7')
            return ("\n".join(lines) + "\n").encode()


@contextmanager
def an_exporter(traffic: Traffic) -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = traffic.page()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """A Prometheus that is killed while it reads is part of the test."""

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def a_prometheus(directory: Path, exporter: int) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Yields the process and its address when it answers."""
    program = shutil.which("prometheus")
    assert program is not None, "no Prometheus: make tools installs it"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "prometheus.yml").write_text(
        "global: {scrape_interval: 1s}\nscrape_configs: [{job_name: nodes, honor_labels: true, "
        f"static_configs: [{{targets: ['127.0.0.1:{exporter}']}}]}}]\n"
    )
    port = free_port()
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                program,
                f"--config.file={directory / 'prometheus.yml'}",
                f"--storage.tsdb.path={directory / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=log,
        )
    address = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 120
        while True:
            assert process.poll() is None, (directory / "log").read_text()[-2000:]
            try:
                with urlopen(f"{address}/-/ready", timeout=5):  # noqa: S310
                    break
            except (URLError, OSError):
                assert time.monotonic() < deadline
                time.sleep(0.05)
        yield process, address
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait(30)
