"""Who the kernel says is at the other end."""

import os
import socket

import pytest

from hearth.host import peers
from process.requirements import needs_root


@pytest.mark.parametrize("uid", [1, 2**31 - 1, 2**31, 2**32 - 2])
def test_a_user_is_known_by_its_own_number_however_large(uid: int) -> None:
    needs_root()
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            one, _other = socket.socketpair()
            os.write(writing, repr((os.getpid(), peers.peer_of(one), peers.own_uid())).encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    said = os.read(reading, 4096).decode()
    os.close(reading)
    assert said == repr((child, peers.Peer(child, uid, uid), uid))
