"""Listening sockets are read from /proc as the kernel prints them."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from greenlane_tools.lab.listeners import Listener, held, listening, of_text

TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:7130 00000000:0000 0A 00000000:00000008 00:00000000 00000000     0        0 3625101 9 0000 100 0 0 10 0
   1: 00000000:07E8 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1065 1 0000 100 0 0 10 0
   2: 0100007F:7130 0100007F:A1B2 01 00000000:00000000 00:00000000 00000000     0        0 99 1 0000 100 0 0 10 0
"""
TCP6 = """\
  sl  local_address                         remote_address                        st tx_queue
   0: 00000000000000000000000001000000:1F90 00000000000000000000000000000000:0000 0A 0:0 00:0 0 0 0 77 1
"""
UNIX = """\
Num       RefCount Protocol Flags    Type St Inode Path
0000000088d959fb: 00000002 00000000 00010000 0001 01 3625045 /run/with space.sock
00000000e7767fc3: 00000003 00000000 00000000 0001 03 3624184 /run/with space.sock
00000000e7767fc4: 00000002 00000000 00010000 0001 01 5 @hidden
00000000e7767fc5: 00000002 00000000 00010000 0001 01 6
"""


def test_a_listener_is_a_line_in_state_0a():
    found = of_text("tcp", TCP)
    assert found == [Listener("tcp", "127.0.0.1:28976", 3625101), Listener("tcp", "0.0.0.0:2024", 1065)]
    assert found[0].port == 28976


def test_an_ipv6_address_is_read_in_the_words_of_this_machine():
    assert of_text("tcp6", TCP6) == [Listener("tcp6", "[::1]:8080", 77)]


def test_a_unix_listener_has_a_path_and_accepts_connections():
    assert of_text("unix", UNIX) == [Listener("unix", "/run/with space.sock", 3625045), Listener("unix", "@hidden", 5)]


def test_sockets_with_so_reuseport_are_as_many_listeners_and_one_that_only_binds_is_none():
    with socket.socket() as first, socket.socket() as second, socket.socket() as silent:
        for one in (first, second, silent):
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        first.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{first.getsockname()[1]}"
        second.bind(first.getsockname())
        silent.bind(first.getsockname())
        first.listen()
        assert len(listening(address)) == 1
        second.listen()
        found = listening(address)
        assert len(found) == 2
        mine = held([os.getpid()])
        assert all(mine[one.inode] == {os.getpid()} for one in found)


def test_a_unix_socket_is_found_by_its_path(tmp_path: Path):
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(tmp_path / "s"))
        assert listening(f"unix:{tmp_path / 's'}") == []
        one.listen()
        assert [found.family for found in listening(f"unix:{tmp_path / 's'}")] == ["unix"]


def test_a_process_that_is_gone_holds_nothing():
    assert held([2**22 + 1]) == {}
