"""nginx as a reverse proxy in front of local sites, with keep-alive connections."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from mangonel.engines.engine import PORT, Engine, accepts
from mangonel.engines.programs import find_program

CONFIGURATION = """
worker_processes 1; daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log crit;
events {{ worker_connections 4096; }}
http {{
  access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  upstream site {{ {servers} keepalive 64; }}
  server {{
    listen 127.0.0.1:{port} backlog=1024;
    location / {{ proxy_pass http://site; proxy_http_version 1.1; proxy_set_header Connection ""; }}
  }}
}}
"""


@contextmanager
def nginx(ports: Sequence[int]) -> Iterator[int]:
    """Run nginx in front of the sites on these ports; yield its own port.

    Raises:
        Missing: nginx is not available.
    """
    with TemporaryDirectory(prefix="mangonel-nginx-") as folder:
        servers = " ".join(f"server 127.0.0.1:{each};" for each in ports)
        path = Path(folder, "nginx.conf")
        command = [find_program("nginx"), "-c", str(path), "-p", folder]
        engine = Engine("nginx", f"http://127.0.0.1:{PORT}", command, folder, None, accepts)
        # Only the configuration file names its port.
        engine.prepare = lambda port: path.write_text(
            CONFIGURATION.format(folder=folder, servers=servers, port=port)
        )
        try:
            engine.start()
            yield engine.port
        finally:
            engine.stop()
