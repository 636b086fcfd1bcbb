"""How much is written at once, and what is said of a connection that failed."""

import ssl
from pathlib import Path
from socket import socket
from typing import cast

import pytest

from hearth.bridge.remote import wires
from hearth.bridge.remote.target import Target
from hearth.bridge.remote.wires import CONNECT_SECONDS, WRITE_BYTES, Wire, reason


def test_an_address_that_nothing_comes_back_from_leaves_the_others_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now, given = 1000.0, []

    class Lost:
        """A socket to nowhere."""

        def __init__(self, *_: object) -> None:
            self._seconds = 0.0

        def settimeout(self, seconds: float) -> None:
            self._seconds = seconds

        def connect(self, address: object) -> None:
            nonlocal now
            now += self._seconds
            given.append(self._seconds)
            raise TimeoutError("timed out")

        def close(self) -> None:
            pass

    monkeypatch.setattr(wires, "getaddrinfo", lambda *_: [(0, 0, 0, "", ("x", number)) for number in range(4)])
    monkeypatch.setattr(wires, "socket", Lost)
    monkeypatch.setattr(wires, "monotonic", lambda: now)
    with pytest.raises(TimeoutError):
        wires.connect(Target("http://x/mcp", ""))
    assert given == [CONNECT_SECONDS / 4] * 4


def test_a_large_request_is_written_in_pieces_that_each_have_their_time() -> None:
    class Whole:
        """As over TLS: what is given to one call is written by it."""

        def __init__(self) -> None:
            self.pieces: list[bytes] = []

        def settimeout(self, seconds: float | None) -> None:
            pass

        def send(self, data: memoryview) -> int:
            self.pieces.append(bytes(data))
            return len(data)

    data = b"0123456789" * 20_000
    sock = Whole()
    Wire(cast(socket, sock)).send(data)
    assert b"".join(sock.pieces) == data
    assert max(map(len, sock.pieces)) <= WRITE_BYTES < len(data)


def untrusted() -> ssl.SSLCertVerificationError:
    problem = ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] failed (_ssl.c:1006)")
    problem.verify_message = "unable to get local issuer certificate"
    return problem


def test_who_trusts_nobody_else_is_told_of_the_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    assert "set SSL_CERT_FILE in the bridge's environment" in reason(untrusted())
    (tmp_path / "other.pem").write_text("")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "other.pem"))
    assert "cannot be read" not in reason(untrusted())


def test_who_names_a_file_that_is_not_there_is_told_that(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "nope"))
    said = reason(untrusted())
    assert f"SSL_CERT_FILE names {tmp_path / 'nope'}, which cannot be read (No such file or directory)" in said
    assert "set SSL_CERT_FILE" not in said


def test_an_answer_without_tls_is_told_in_words() -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    incoming.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    talk = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLError) as caught:
        talk.do_handshake()
    assert reason(caught.value) == "it does not speak TLS there; is it http:// instead of https://?"
