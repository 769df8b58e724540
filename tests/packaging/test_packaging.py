"""The package as it is published, and the files of `deploy`, checked without a network."""

import contextlib
import functools
import html
import re
import shutil
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from email.message import Message
from email.parser import Parser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import msgspec
import pytest
import yaml
from readme_renderer.markdown import render

import ordercast
from hatch_build import for_index
from ordercast.cli.docs import pages
from ordercast.net.cluster.file import read_cluster
from support.harness.commands import needed

ROOT = Path(__file__).resolve().parent.parent.parent
DEPLOY = ROOT / "deploy"
DRAWN = (ROOT / "docs" / "images" / "figure3.txt").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist, and the wheel."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(folder)],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def metadata(dist: Path) -> Message:
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as files:
        name = next(name for name in files.namelist() if name.endswith("/METADATA"))
        return Parser().parsestr(files.read(name).decode())


def test_an_index_would_take_them(dist: Path) -> None:
    words = [sys.executable, "-m", "twine", "check", "--strict", *map(str, dist.iterdir())]
    done = subprocess.run(words, capture_output=True, text=True)
    assert (done.returncode, done.stdout.count("PASSED")) == (0, 2), done.stdout + done.stderr


def test_the_metadata_says_who_where_and_what(metadata: Message) -> None:
    addresses = dict(str(url).split(", ") for url in metadata.get_all("Project-URL", []))
    assert set(addresses) == {"Homepage", "Documentation", "Changelog", "Source"}
    assert metadata["Author"]
    assert "multicast" in metadata["Keywords"].split(",")
    extras = set(metadata.get_all("Provides-Extra", []))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    told = set(re.findall(r"^\| `(\w+)` \|", readme, re.MULTILINE))
    assert told == extras
    needs: dict[str, set[str]] = {extra: set() for extra in extras}
    for need in map(str, metadata.get_all("Requires-Dist", [])):
        if found := re.search(r"extra == '(\w+)'", need):
            needs[found[1]].add(re.split(r"[^\w-]", need)[0])
    assert needs.pop("all") == set().union(*needs.values())


def test_links_and_pictures_of_the_readme_work_on_an_index_page() -> None:
    """Drawn as an index draws it; the checkout, served here, is what its address leads to."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    with served(ROOT) as address:
        page = render(for_index(text, address, ROOT)) or ""
        links = re.findall(r'<a [^>]*href="([^"#][^"]*)"', page)
        pictures = re.findall(r'<img [^>]*src="([^"]+)"', page)
        assert len(links) > 20
        assert len(pictures) == text.count("![") > 0
        ours = [target for target in links if target.startswith(address)]
        assert len(ours) == len(links) - len(re.findall(r"\]\(https?://", text))
        for target in ours + pictures:
            with urlopen(target) as answer:  # raises where nothing is
                is_picture = answer.headers["Content-Type"].startswith("image/")
                assert is_picture is (target in pictures), target


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Nothing is told."""

    handler = functools.partial(Handler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            serving.join()


def test_without_an_address_an_index_names_pages_as_the_reader_has_them(metadata: Message) -> None:
    text = metadata.get_payload()
    assert isinstance(text, str)
    for target in re.findall(r"\]\(([^)]+)\)", text):
        assert re.match(r"https?://|#", target), target
        assert ".example" not in target
    named = set(re.findall(r"`ordercast docs (\w[\w-]*)`", text))
    assert len(named) > 20
    assert named <= set(pages())


def test_without_an_address_an_index_shows_pictures_in_characters(metadata: Message) -> None:
    page = render(str(metadata.get_payload())) or ""
    assert "<img" not in page
    shown = re.findall(r"<pre.*?</pre>", page, re.DOTALL)
    assert [html.unescape(re.sub("<.*?>", "", each)) for each in shown].count(DRAWN) == 1


def test_no_index_takes_the_package_before_its_addresses_lead_anywhere(metadata: Message) -> None:
    addresses = [str(url).split(", ")[1] for url in metadata.get_all("Project-URL", [])]
    reserved = [str(urlsplit(url).hostname).endswith(".example") for url in addresses]
    refused = "Private :: Do Not Upload" in metadata.get_all("Classifier", [])
    assert any(reserved) is refused


def test_the_wheel_is_the_source_with_its_pages(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as files:
        names = set(files.namelist())
    for path in (ROOT / "src").rglob("*.py"):
        assert str(path.relative_to(ROOT / "src")) in names
    for folder in ("static", "templates"):  # of the web page
        files_of_page = [p for p in (ROOT / "src/ordercast/web" / folder).rglob("*") if p.is_file()]
        assert files_of_page
        assert {str(path.relative_to(ROOT / "src")) for path in files_of_page} <= names
    assert "ordercast/web/static/uplot/LICENSE" in names
    found = {name.removeprefix("ordercast/pages/") for name in names if "/pages/" in name}
    assert found == {path.name for path in (ROOT / "docs").glob("*.md")}
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert {"README.md", "hatch_build.py", "deploy/compose.yaml", "docs/store.md"} <= inside


def test_what_is_installed_by_pip_runs_without_extras(dist: Path, tmp_path: Path) -> None:
    """As README says, from `dist`; its one dependency is taken from here."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "\npip install ordercast " in readme
    assert "`--find-links dist`" in readme
    place = tmp_path / "site"
    words = ["--no-index", "--no-deps", "--find-links", str(dist), "--target", str(place)]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", *words, "ordercast"]
    subprocess.run(pip, check=True, capture_output=True)
    (place / "msgspec").symlink_to(Path(msgspec.__file__).parent)
    code = (
        f"import sys; sys.path.insert(0, {str(place)!r})\n"
        "from ordercast.cli import main\n"
        "sys.exit(any(main(words.split()) for words in sys.argv[1:]))"
    )
    verbs = ["--version", "docs store", "man", 'sim {"groups":{"g":["a","b"]}} --messages 5']
    done = subprocess.run(  # -S: nothing else that is installed here is seen
        [sys.executable, "-S", "-c", code, *verbs], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"ordercast {ordercast.__version__} (pure)\n# ")
    assert "verdict      no violation" in done.stdout


def test_the_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
    unit = (DEPLOY / "ordercast@.service").read_text(encoding="utf-8")
    assert "ordercast node /etc/ordercast/cluster.toml --site %i" in unit
    instance = tmp_path / "ordercast@.service".replace("@", "@a")
    shutil.copy(DEPLOY / "ordercast@.service", instance)
    words = [needed("systemd-analyze"), "--man=no", "verify", str(instance)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def composed() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    return found


def test_the_compose_file_runs_every_site_of_its_cluster() -> None:
    cluster, services = read_cluster(DEPLOY / "cluster.toml"), composed()["services"]
    assert set(services) == {*cluster.sites, "certs"}
    for name, site in cluster.sites.items():
        service = services[name]
        assert site.address == (name, 7100)
        assert service["command"] == ["node", "/etc/ordercast/cluster.toml", "--site", name]
        assert service["depends_on"]["certs"]["condition"] == "service_completed_successfully"
        assert service["healthcheck"]["test"][1:3] == ["ordercast", "status"]
    for service in services.values():
        assert service["volumes"] == services["certs"]["volumes"]
        build = service["build"]
        assert (
            DEPLOY / build["context"] / build["dockerfile"]
        ).resolve() == DEPLOY / "Containerfile"
    assert cluster.tls is not None
    assert cluster.tls.directory.name == "certs"


def test_the_container_file_installs_the_extras_of_a_site_and_runs_as_nobody_special() -> None:
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    assert re.search(r"^USER ordercast$", text, re.MULTILINE)
    assert text.count("[certs,fast,metrics]") == 2
    assert "ENV ORDERCAST_DIR=/var/lib/ordercast\n" in text
