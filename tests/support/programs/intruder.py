"""A user of this machine who knows the names of a cluster, and tries to speak as its sites.

Run as `python intruder.py JOB`, with the job in JSON: the addresses of the sites, the name of the
cluster, and the files to try. Run as root it first becomes nobody. It prints what it got, in JSON.
"""

import json
import os
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from ordercast.model.epochs import Edit, RemoveGroup, UseProtocol
from ordercast.net.cluster.file import cluster_of_groups
from ordercast.net.link.hello import FOUNDING, Hello, encode_hello
from ordercast.wire.codec import WireFrame, encode_frame
from ordercast.wire.epochs import ChangeRequest
from ordercast.wire.frames import Ack

NOBODY = 65_534
LISTEN_S = 2.0
EDITS: tuple[tuple[Edit, ...], ...] = (
    (RemoveGroup("alpha"),),
    (UseProtocol("centralized"),),
)


def become_nobody() -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def bytes_as(job: dict[str, Any], site: str, to: str) -> bytes:
    """A hello of a later start of the site, and changes that it asks for."""
    groups = {group: list(members) for group, members in job["groups"].items()}
    cluster = cluster_of_groups(groups, name=job["cluster"], **job["options"])
    terms = {**cluster.terms(), FOUNDING: ""}
    hello = Hello(job["cluster"], site, to, 1, 999, b"intruder", 1, 0, 0, terms)
    frames: list[WireFrame] = [Ack(999, 0, ())]
    frames += [ChangeRequest(f"c{n}", edits) for n, edits in enumerate(EDITS)]
    return encode_hello(hello) + b"".join(map(encode_frame, frames))


def speak(address: tuple[str, int], data: bytes) -> str:
    """Everything that is said to us until the other end has had enough."""
    heard = b""
    with socket.create_connection(address, LISTEN_S) as there, suppress(OSError):
        there.sendall(data)
        while piece := there.recv(65_536):
            heard += piece
    return heard.hex()


def opened(path: str) -> str:
    """What is in the way of a file, a directory or a socket; empty: nothing."""
    try:
        if path.endswith(".sock"):
            with socket.socket(socket.AF_UNIX) as there:
                there.connect(path)
        elif Path(path).is_dir():
            list(Path(path).iterdir())
        else:
            Path(path).read_bytes()
    except OSError as error:
        return type(error).__name__
    return ""


def main() -> None:
    job = json.loads(sys.argv[1])
    sites = sorted(job["addresses"])
    words = {
        f"{site} to {to}": bytes_as(job, site, to) for site in sites for to in sites if site != to
    }
    "".encode("idna")  # nobody may not be able to read the library later on
    become_nobody()
    heard = {
        pair: speak(tuple(job["addresses"][pair.rpartition(" ")[2]]), data)
        for pair, data in words.items()
    }
    files = {path: opened(path) for path in job["files"]}
    print(json.dumps({"user": os.geteuid(), "heard": heard, "files": files}))


if __name__ == "__main__":
    main()
