"""A UDP socket in an IP multicast group (IPv4).

A time to live of 0 keeps datagrams within the machine, 1 within its network; no default here is
higher. If the system does not take a datagram at once, it is dropped: streams repair that.
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable
from typing import Final

from ordercast.wire.datagrams import LARGEST_DATAGRAM

RECEIVE_BYTES: Final = 4 * 1024 * 1024  # of the system's buffer, if the system allows it
_TURN = 128  # datagrams that are read before other callbacks run


class DatagramSocket:
    """`took` is called with all datagrams of one turn of the event loop."""

    def __init__(self, took: Callable[[list[bytes]], None]) -> None:
        self._took = took
        self._socket: socket.socket | None = None
        self._to = ("", 0)
        self.unsent = 0

    def open(self, address: tuple[str, int], interface: str, ttl: int) -> None:
        """Join the group on the interface that has this address; the name of a host is resolved.
        Raises OSError."""
        local = socket.gethostbyname(interface)
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            made.setblocking(False)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if hasattr(socket, "SO_REUSEPORT"):  # for several sites on one machine, off Linux
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            with contextlib.suppress(OSError):
                made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
            try:
                made.bind(address)  # so that only datagrams of this group arrive
            except OSError:
                made.bind(("", address[1]))  # some systems cannot bind to a group
            made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, ttl)
            made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
            made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(local))
            member = struct.pack("4s4s", socket.inet_aton(address[0]), socket.inet_aton(local))
            made.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
        except BaseException:
            made.close()
            raise
        self._socket, self._to = made, address
        asyncio.get_running_loop().add_reader(made, self._read)

    def send(self, data: bytes) -> None:
        if self._socket is None:
            return
        try:
            self._socket.sendto(data, self._to)
        except OSError:  # no room, or no network: the datagram is lost
            self.unsent += 1

    def _read(self) -> None:
        assert self._socket is not None
        datagrams: list[bytes] = []
        with contextlib.suppress(OSError):  # nothing more to read, or a failed send
            while len(datagrams) < _TURN:
                datagrams.append(self._socket.recv(LARGEST_DATAGRAM))
        if datagrams:
            self._took(datagrams)

    def close(self) -> None:
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None
