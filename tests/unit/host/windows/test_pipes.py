"""What is asked of Windows for the daemon's pipe, and who may come in: all that can be told without a Windows."""

import pytest

from hearth.host.peers import Peer
from hearth.host.windows import pipes

ME = "S-1-5-21-1-2-3-1001"


def test_the_first_instance_must_be_the_first_of_its_name() -> None:
    # CreateNamedPipe: FILE_FLAG_FIRST_PIPE_INSTANCE
    assert pipes.open_mode(first=True) & 0x0008_0000
    assert not pipes.open_mode(first=False) & 0x0008_0000


def test_a_pipe_is_read_and_written_and_waited_for() -> None:
    for first in (True, False):
        # PIPE_ACCESS_DUPLEX and FILE_FLAG_OVERLAPPED
        assert pipes.open_mode(first) & 0x4000_0003 == 0x4000_0003


def test_clients_of_other_machines_are_rejected_and_bytes_are_no_messages() -> None:
    # PIPE_REJECT_REMOTE_CLIENTS, and neither PIPE_TYPE_MESSAGE nor PIPE_READMODE_MESSAGE nor PIPE_NOWAIT
    assert pipes.PIPE_MODE == 0x8


def test_nobody_but_its_owner_is_named_in_the_descriptor() -> None:
    # Owner; a list that inherits nothing (P); one entry, which allows (A) everything (GA).
    assert pipes.descriptor(ME, elevated=False) == f"O:{ME}D:P(A;;GA;;;{ME})"


def test_a_daemon_that_is_elevated_is_out_of_reach_for_programs_that_are_not() -> None:
    # A mandatory label (ML): nobody below the high level (HI) may write (NW).
    assert pipes.descriptor(ME, elevated=True) == f"O:{ME}D:P(A;;GA;;;{ME})S:(ML;;NW;;;HI)"


@pytest.mark.parametrize("sid", ["S-1-5-21-1-2-3-1002", "S-1-5-18", "S-1-5-7", "S-1-5-32-544"])
def test_another_user_is_refused_and_so_are_the_system_the_anonymous_and_administrators(sid: str) -> None:
    assert pipes.stranger(Peer(7, -1, -1, sid), ME) == f"{sid} may not use the daemon of {ME}"


def test_who_cannot_be_known_is_refused() -> None:
    assert pipes.stranger(None, ME) == "Windows does not say who it is"
    assert pipes.stranger(Peer(7, -1, -1, ""), "") == "Windows does not say who it is"


def test_this_user_comes_in() -> None:
    assert pipes.stranger(Peer(7, -1, -1, ME), ME) is None
