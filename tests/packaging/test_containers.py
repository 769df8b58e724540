"""The container file and the compose file: what they say is of the form that is asked for, and what
they run works. There is no daemon of containers here, so the commands run in an environment that
has the wheel and its extras alone, one directory for each site."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from importlib.metadata import requires
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest
import yaml

from support.harness.ports import free_ports

ROOT = Path(__file__).resolve().parent.parent.parent
DEPLOY = ROOT / "deploy"
FILES = "/etc/ordercast"
NATIVE = ("cffi", "_cffi_backend", "pycparser")  # of cryptography
SOON_S = 60.0


class Part(msgspec.Struct, forbid_unknown_fields=True):
    """A part of the Compose specification, with the keys that we use."""


class Build(Part):
    context: str
    dockerfile: str


class Dependency(Part):
    condition: Literal["service_started", "service_healthy", "service_completed_successfully"]


Duration = Annotated[str, msgspec.Meta(pattern=r"^(\d+(us|ms|s|m|h))+$")]


class Health(Part):
    test: list[str]
    interval: Duration
    start_period: Duration


class Service(Part):
    image: str
    build: Build
    command: list[str]
    volumes: list[Annotated[str, msgspec.Meta(pattern=r"^[\w./-]+:/[\w./-]+(:ro|:rw)?$")]]
    restart: Literal["no", "always", "on-failure", "unless-stopped"] = "no"
    depends_on: dict[str, Dependency] = {}
    healthcheck: Health | None = None


class Compose(Part):
    services: dict[str, Service]
    volumes: dict[str, dict[str, Any] | None]


def read_compose(text: str) -> Compose:
    found = yaml.safe_load(text)
    plain = {key: value for key, value in found.items() if not key.startswith("x-")}
    compose = msgspec.convert(plain, Compose)
    for service in compose.services.values():
        assert set(service.depends_on) <= set(compose.services)
        assert service.healthcheck is None or service.healthcheck.test[0] in ("CMD", "CMD-SHELL")
        for volume in service.volumes:
            source = volume.partition(":")[0]
            assert source in compose.volumes or (DEPLOY / source).exists(), volume
    return compose


def test_the_compose_file_has_the_form_of_the_specification() -> None:
    file = DEPLOY / "compose.yaml"
    read_compose(file.read_text(encoding="utf-8"))
    for words in (["docker", "compose"], ["docker-compose"]):
        known = [*words, "version"]
        if shutil.which(words[0]) and not subprocess.run(known, capture_output=True).returncode:
            done = subprocess.run([*words, "-f", str(file), "config", "-q"], capture_output=True)
            assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("healthcheck:", "healthchek:"), ("10s", "10 seconds"), ("on-failure", "on_failure"),
        ("service_completed_successfully", "completed"), ("- certs:/etc", "- cets:/etc"),
        ('["CMD", ', "["), ("  certs:\n      condition", "  cert:\n      condition"),
    ],
)  # fmt: skip
def test_a_compose_file_with_a_mistake_is_refused(old: str, new: str) -> None:
    text = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    assert old in text
    with pytest.raises((msgspec.ValidationError, AssertionError)):
        read_compose(text.replace(old, new))


def pip_commands() -> list[list[str]]:
    """The words of each `pip` that the container file runs."""
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    runs = re.findall(r"^RUN (.*)$", text, re.MULTILINE)
    steps = [step.strip() for run in runs for step in run.split("&&")]
    found = [re.sub(r"^(--mount=\S+\s+)*", "", step) for step in steps]
    return [shlex.split(step) for step in found if step.startswith("pip ")]


class Container:
    """The wheel and what its extras need, and nothing else that is installed here."""

    def __init__(self, place: Path) -> None:
        wheels, self.packages = place / "wheels", place / "site"
        wheel, install = pip_commands()
        offline = {
            "wheel": ["--no-deps", "--no-build-isolation", "--quiet"],
            "install": ["--no-deps", "--quiet", "--target", str(self.packages)],
        }
        for words in (wheel, install):
            given = [word.replace("/wheels", str(wheels)) for word in words[1:]]
            pip = [sys.executable, "-m", "pip", *given, *offline[words[1]]]
            subprocess.run(pip, cwd=ROOT, check=True, capture_output=True)
        (extras,) = re.findall(r"ordercast\[([\w,]+)\]", " ".join(install))
        for need in requires("ordercast") or ():
            found = re.match(r"([\w-]+)[^;]*(?:;.*extra == '(\w+)')?$", need)
            if found is not None and found[2] in (None, *extras.split(",")):
                self._link(found[1].replace("-", "_"))
        for name in NATIVE:
            self._link(name)

    def _link(self, module: str) -> None:
        spec = find_spec(module)
        if spec is not None and spec.origin is not None:
            source = Path(spec.origin)
            source = source.parent if source.name == "__init__.py" else source
            if not (self.packages / source.name).exists():
                (self.packages / source.name).symlink_to(source)

    def command(self, *words: str) -> list[str]:
        code = f"import sys; sys.path.insert(0, {str(self.packages)!r})\n"
        code += "from ordercast.cli import main; sys.exit(main())"
        return [sys.executable, "-S", "-c", code, *words]


def test_what_the_compose_file_runs_is_a_cluster(tmp_path: Path) -> None:
    container = Container(tmp_path)
    compose = read_compose((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    files = tmp_path / "etc"
    files.mkdir()
    text = (DEPLOY / "cluster.toml").read_text(encoding="utf-8")
    for port in free_ports(6):
        text = re.sub(r'"(\w:7100|0\.0\.0\.0:910\d)"', f'"127.0.0.1:{port}"', text, count=1)
    (files / "cluster.toml").write_text(text, encoding="utf-8")

    def run(service: str, *words: str) -> subprocess.Popen[str]:
        environment = {**os.environ, "ORDERCAST_DIR": str(tmp_path / f"var-{service}")}
        given = [word.replace(FILES, str(files)) for word in words]
        return subprocess.Popen(
            container.command(*given), cwd=tmp_path, env=environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def good(service: str, *words: str) -> bool:
        with run(service, *words) as done:
            done.communicate(timeout=SOON_S)
        return done.returncode == 0

    assert good("certs", *compose.services["certs"].command)
    sites = {name: each for name, each in compose.services.items() if name != "certs"}
    running = {name: run(name, *each.command) for name, each in sites.items()}
    try:
        end = time.monotonic() + SOON_S
        for name, each in sites.items():
            assert each.healthcheck is not None
            assert each.healthcheck.test[1] == "ordercast"
            while not good(name, *each.healthcheck.test[2:]):
                assert time.monotonic() < end, running[name].communicate()
        assert good("a", "send", f"{FILES}/cluster.toml", "alpha", "hello", "--from", "a")
    finally:
        for process in running.values():
            process.terminate()
        told = {name: done.communicate(timeout=SOON_S)[0] for name, done in running.items()}
    assert {done.returncode for done in running.values()} == {0}, told
