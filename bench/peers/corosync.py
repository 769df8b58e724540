"""Corosync's closed process groups: a daemon for each member, in a network namespace of its own.

The daemons are joined by a bridge, and a member speaks to its daemon by libcpg. That needs root. A
call of libcpg waits for the daemon, so what a turn of the loop sends goes in one call.
"""

import asyncio
import ctypes
import ctypes.util
import os
import shutil
import struct
import subprocess
from typing import Any

from bench.peers.servers import Servers
from bench.peers.target import PeerTarget

OK, TRY_AGAIN = 1, 6  # of cs_error_t
AGREED = 2  # CPG_TYPE_AGREED
ALL = 2  # CS_DISPATCH_ALL
NAME_BYTES = 128
LENGTH = struct.Struct(">I")
MOST_BYTES = 65_536  # in one call
RETRY_S = 0.0005  # after TRY_AGAIN: nobody tells when there is room
START_TRIES = 300  # to reach the daemon, 0.05 s between them


class Corosync:
    name = "Corosync CPG"
    promise = "a token orders; nothing is stored"
    variants = ("",)

    def missing(self) -> str:
        if not shutil.which("corosync") or not ctypes.util.find_library("cpg"):
            return "corosync or libcpg is not installed"
        if os.geteuid() != 0 or not shutil.which("ip"):
            return "it needs root, and ip, for its namespaces"
        return ""

    def serve(self, servers: Servers, members: int, variant: str) -> list[dict[str, Any]]:  # noqa: ARG002
        tag = f"oc{os.getpid() % 100_000}"
        names = [f"{tag}n{number}" for number in range(members)]
        for name in names:
            servers.at_end(["ip", "netns", "del", name])
        servers.at_end(["ip", "netns", "del", f"{tag}hub"])
        _ip(f"netns add {tag}hub")
        _ip(f"-n {tag}hub link add hub type bridge")
        _ip(f"-n {tag}hub link set hub up")
        nodes = ""
        for number, name in enumerate(names):
            address = f"10.213.{os.getpid() % 250}.{number + 1}"
            _ip(f"netns add {name}")
            _ip(f"-n {name} link set lo up")
            _ip(f"-n {name} link add eth type veth peer name v{number} netns {tag}hub")
            _ip(f"-n {tag}hub link set v{number} master hub up")
            _ip(f"-n {name} addr add {address}/24 dev eth")
            _ip(f"-n {name} link set eth up")
            nodes += (
                f" node {{\n ring0_addr: {address}\n nodeid: {number + 1}\n name: {name}\n }}\n"
            )
        for name in names:
            servers.start(["ip", "netns", "exec", name, "sh", "-c", _script(servers, name, nodes)])
        return [{"prefix": ["ip", "netns", "exec", name]} for name in names]


def _script(servers: Servers, name: str, nodes: str) -> str:
    """Of a daemon: /run is its own, because all daemons write the same files there."""
    state = servers.directory / name
    state.mkdir()
    path = servers.directory / f"{name}.conf"
    path.write_text(
        "totem {\n version: 2\n cluster_name: bench\n transport: udpu\n token: 3000\n}\n"
        "logging {\n to_stderr: yes\n to_syslog: no\n to_logfile: no\n}\n"
        f"system {{\n state_dir: {state}\n}}\nnodelist {{\n{nodes}}}\n",
        encoding="utf-8",
    )
    return f"mount -t tmpfs tmpfs /run && exec corosync -f -c {path}"


def _ip(words: str) -> None:
    subprocess.run(["ip", *words.split()], check=True)


class CpgName(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint32), ("value", ctypes.c_char * NAME_BYTES))


class IoVector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_char_p), ("length", ctypes.c_size_t))


Delivered = ctypes.CFUNCTYPE(
    None, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p,
    ctypes.c_size_t,
)  # fmt: skip
Changed = ctypes.CFUNCTYPE(
    None, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p,
    ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t,
)  # fmt: skip


class Callbacks(ctypes.Structure):
    _fields_ = (("delivered", Delivered), ("changed", Changed))


class CorosyncTarget(PeerTarget):
    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._cpg = ctypes.CDLL(ctypes.util.find_library("cpg"))
        self._handle = ctypes.c_uint64()
        self._waiting: list[bytes] = []
        self._size = 0
        self._due = False
        self._got: list[bytes] = []
        self._members = 0
        self._callbacks = Callbacks(Delivered(self._delivered), Changed(self._changed))
        await self._until_ok(
            lambda: self._cpg.cpg_initialize(
                ctypes.byref(self._handle), ctypes.byref(self._callbacks)
            )
        )
        group = CpgName(5, b"bench")
        await self._until_ok(lambda: self._cpg.cpg_join(self._handle, ctypes.byref(group)))
        descriptor = ctypes.c_int()
        self._cpg.cpg_fd_get(self._handle, ctypes.byref(descriptor))
        self._descriptor = descriptor.value
        self._loop.add_reader(self._descriptor, self._readable)
        while self._members < self.spec["members"]:
            await asyncio.sleep(0.01)

    async def _until_ok(self, call: Any) -> None:
        for _ in range(START_TRIES):
            if (code := call()) == OK:
                return
            await asyncio.sleep(0.05)
        raise SystemExit(f"corosync: error {code}")

    def _delivered(self, *words: int) -> None:
        message, length = words[4:]
        data, at = ctypes.string_at(message, length), 0
        while at < length:
            begin = at + LENGTH.size
            at = begin + LENGTH.unpack_from(data, at)[0]
            self._got.append(data[begin:at])

    def _changed(self, *words: int) -> None:
        self._members = words[3]

    def _readable(self) -> None:
        self._cpg.cpg_dispatch(self._handle, ALL)
        if self._got:
            got, self._got = self._got, []
            self.took(got)

    def put(self, marked: bytes) -> None:
        self._waiting += (LENGTH.pack(len(marked)), marked)
        self._size += LENGTH.size + len(marked)
        if not self._due:
            self._due = True
            self._loop.call_soon(self._flush)
        elif self._size >= MOST_BYTES:
            self._flush()

    def _flush(self) -> None:
        """Try again later if the daemon has no room."""
        self._due = False
        if not self._waiting:
            return
        data = b"".join(self._waiting)
        vector = IoVector(data, len(data))
        code = self._cpg.cpg_mcast_joined(self._handle, AGREED, ctypes.byref(vector), 1)
        if code == OK:
            self._waiting, self._size = [], 0
        elif code == TRY_AGAIN:
            self._due = True
            self._loop.call_later(RETRY_S, self._flush)
        else:
            raise SystemExit(f"corosync: error {code}")

    async def close(self) -> None:
        self._loop.remove_reader(self._descriptor)
        self._cpg.cpg_finalize(self._handle)
