"""Certificates for the tests' own servers, made by openssl."""

import ssl
import subprocess
from pathlib import Path

from support.requirements import needs_program


class Authority:
    """A throw-away authority, and a server's certificate that it has signed."""

    def __init__(self, folder: Path, host: str = "IP:127.0.0.1") -> None:
        self._openssl = needs_program("openssl")
        self.file = folder / "authority.pem"
        key, request = folder / "key.pem", folder / "request.pem"
        self._run("req", "-x509", *self._new(folder / "authority.key"), "-subj", "/CN=authority", "-out", self.file,
                  "-addext", "keyUsage=critical,keyCertSign")  # fmt: skip
        self._run("req", *self._new(key), "-subj", "/CN=server", "-out", request)
        (folder / "extensions").write_text(f"subjectAltName={host}\n")
        self._run("x509", "-req", "-in", request, "-CA", self.file, "-CAkey", folder / "authority.key",
                  "-extfile", folder / "extensions", "-out", folder / "server.pem", "-days", "2")  # fmt: skip
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(folder / "server.pem", key)

    def _new(self, key: Path) -> tuple[str | Path, ...]:
        return "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-keyout", key

    def _run(self, *words: str | Path) -> None:
        subprocess.run([self._openssl, *words], check=True, capture_output=True)
