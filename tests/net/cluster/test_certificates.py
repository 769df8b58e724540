"""Making certificates: what the files are, who may read them, and what is never overwritten."""

import ssl
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from ordercast.model.errors import ConfigError
from ordercast.net.cluster import certificates
from ordercast.net.cluster.certificates import (
    add_certificates,
    add_client_certificates,
    make_authority,
    write_certificates,
)
from ordercast.net.link.tls import Certificates, TlsConfig


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_files_keys_and_directory_have_sane_permissions(tmp_path: Path) -> None:
    place = tmp_path / "deep" / "certs"
    written = write_certificates("demo", ["a", "b"], place)
    assert [path.name for path in written] == [
        "ca.pem", "ca.key", "a.pem", "a.key", "b.pem", "b.key",
    ]  # fmt: skip
    assert sorted(path.name for path in place.iterdir()) == sorted(p.name for p in written)
    assert mode(place) == 0o700
    for path in written:
        assert mode(path) == (0o600 if path.suffix == ".key" else 0o644)


def test_a_certificate_names_its_site_and_serves_both_sides(tmp_path: Path) -> None:
    hosts = {"a": ["db1.example.org", "192.0.2.7", "192.0.2.7"]}
    write_certificates("demo", ["a"], tmp_path, hosts=hosts)
    found = certificate(tmp_path / "a.pem")
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.UniformResourceIdentifier) == ["ordercast://demo/a"]
    assert names.get_values_for_type(x509.DNSName) == ["db1.example.org"]
    assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == ["192.0.2.7"]
    usage = found.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert set(usage) == {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH}
    assert not found.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    key = found.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert key.curve.name == "secp256r1"


def test_validity_begins_before_now_and_the_authority_outlives_its_sites(tmp_path: Path) -> None:
    write_certificates("demo", ["a"], tmp_path)
    site, authority = certificate(tmp_path / "a.pem"), certificate(tmp_path / "ca.pem")
    now = datetime.now(UTC)
    assert site.not_valid_before_utc < now - timedelta(minutes=30)
    assert timedelta(days=365) < site.not_valid_after_utc - now < timedelta(days=826)
    assert authority.not_valid_after_utc > site.not_valid_after_utc + timedelta(days=365)
    assert authority.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_what_is_made_passes_the_strict_rules_of_openssl(tmp_path: Path) -> None:
    write_certificates("demo", ["a"], tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.load_verify_locations(tmp_path / "ca.pem")
    context.load_cert_chain(tmp_path / "a.pem", tmp_path / "a.key")
    assert context.cert_store_stats()["x509_ca"] == 1
    Certificates(TlsConfig(tmp_path), "demo", "a")


def test_a_site_can_be_added_later_and_nothing_else_changes(tmp_path: Path) -> None:
    write_certificates("demo", ["a"], tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    written = write_certificates("demo", ["a", "b"], tmp_path)
    assert [path.name for path in written] == ["b.pem", "b.key"]
    assert {path: path.read_bytes() for path in before} == before
    assert write_certificates("demo", ["a", "b"], tmp_path) == []
    Certificates(TlsConfig(tmp_path), "demo", "b")


def test_a_site_that_is_added_gets_its_certificate_from_the_authority_there(
    tmp_path: Path,
) -> None:
    write_certificates("demo", ["a"], tmp_path)
    written = add_certificates("demo", ["d"], tmp_path, hosts={"d": ["db4.example.org"]})
    assert [path.name for path in written] == ["d.pem", "d.key"]
    Certificates(TlsConfig(tmp_path), "demo", "d")
    names = certificate(tmp_path / "d.pem").extensions
    hosts = names.get_extension_for_class(x509.SubjectAlternativeName).value
    assert hosts.get_values_for_type(x509.DNSName) == ["db4.example.org"]
    assert add_certificates("demo", ["d"], tmp_path) == []
    assert len(add_certificates("demo", ["d"], tmp_path, renew=True)) == 2


def test_for_a_site_that_is_added_no_new_authority_is_made(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(ConfigError, match=r"has no authority \(ca\.pem, ca\.key\)"):
            add_certificates("demo", ["d"], place)
    assert list(tmp_path.iterdir()) == []


def test_a_site_that_differs_from_another_only_in_case_gets_none(tmp_path: Path) -> None:
    write_certificates("demo", ["a"], tmp_path)
    with pytest.raises(ConfigError, match="'A' and 'a' differ only in case"):
        add_certificates("demo", ["A"], tmp_path)


def test_a_client_gets_a_certificate_for_dialling_only_in_a_directory_of_its_own(
    tmp_path: Path,
) -> None:
    with pytest.raises(ConfigError, match="has no authority"):
        add_client_certificates("demo", ["billing"], tmp_path)
    write_certificates("demo", ["billing"], tmp_path)
    site = (tmp_path / "billing.pem").read_bytes()
    written = add_client_certificates("demo", ["billing"], tmp_path)
    place = tmp_path / "clients"
    assert written == [place / "billing.pem", place / "billing.key"]
    assert (place / "billing.key").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "billing.pem").read_bytes() == site
    made = certificate(place / "billing.pem")
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    found = names.get_values_for_type(x509.UniformResourceIdentifier)
    assert found == ["ordercast://demo/client/billing"]
    usage = made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert add_client_certificates("demo", ["billing"], tmp_path) == []
    assert add_client_certificates("demo", ["billing"], tmp_path, renew=True) == written
    for wrong in ("a/b", "", "Billing"):
        with pytest.raises(ConfigError):
            add_client_certificates("demo", [wrong], tmp_path)


def test_renewing_makes_new_keys_from_the_same_authority(tmp_path: Path) -> None:
    write_certificates("demo", ["a"], tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    write_certificates("demo", ["a"], tmp_path, renew=True)
    after = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert {name for name in before if before[name] != after[name]} == {"a.pem", "a.key"}
    assert mode(tmp_path / "a.key") == 0o600
    Certificates(TlsConfig(tmp_path), "demo", "a")


def test_an_authority_is_not_overwritten(tmp_path: Path) -> None:
    make_authority("demo", tmp_path)
    with pytest.raises(ConfigError, match=r"ca\.pem: is there already, and is not replaced"):
        make_authority("demo", tmp_path)


@pytest.mark.parametrize("lost", ["ca.pem", "ca.key"])
def test_half_an_authority_is_an_error_that_names_the_file(tmp_path: Path, lost: str) -> None:
    write_certificates("demo", ["a"], tmp_path)
    (tmp_path / lost).unlink()
    with pytest.raises(ConfigError, match=rf"{lost}: cannot be read \(No such file"):
        write_certificates("demo", ["a", "b"], tmp_path)


def test_a_key_of_another_authority_is_found(tmp_path: Path) -> None:
    make_authority("demo", tmp_path / "one")
    make_authority("demo", tmp_path / "two")
    (tmp_path / "two" / "ca.key").replace(tmp_path / "one" / "ca.key")
    with pytest.raises(ConfigError, match=r"ca\.key: is not the key of ca\.pem"):
        write_certificates("demo", ["a"], tmp_path / "one")


@pytest.mark.parametrize(
    ("file", "line"),
    [("ca.pem", "not a certificate in PEM form"), ("ca.key", "not a private key in PEM form")],
)
def test_a_damaged_authority_is_one_line(tmp_path: Path, file: str, line: str) -> None:
    make_authority("demo", tmp_path)
    (tmp_path / file).write_text("-----BEGIN NONSENSE-----\n")
    with pytest.raises(ConfigError, match=rf"{file}: {line}"):
        write_certificates("demo", ["a"], tmp_path)


def test_an_expired_authority_signs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificates, "AUTHORITY_DAYS", -1)
    make_authority("demo", tmp_path)
    with pytest.raises(ConfigError, match=r"ca\.pem: has expired"):
        write_certificates("demo", ["a"], tmp_path)


@pytest.mark.parametrize("site", ["ca", "CA"])
def test_a_site_cannot_have_the_name_of_the_authoritys_files(tmp_path: Path, site: str) -> None:
    with pytest.raises(ConfigError, match=f"sites: '{site}' is what the authority's own files"):
        write_certificates("demo", [site], tmp_path)


@pytest.mark.parametrize(("cluster", "site"), [("de/mo", "a"), ("demo", "../a")])
def test_names_are_checked_before_files_are_made(tmp_path: Path, cluster: str, site: str) -> None:
    with pytest.raises(ConfigError, match="is not a name"):
        write_certificates(cluster, [site], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_host_that_is_no_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="hosts: 'höst' is not a host name in ASCII"):
        write_certificates("demo", ["a"], tmp_path, hosts={"a": ["höst"]})


def test_without_the_extra_the_error_names_it(tmp_path: Path) -> None:
    """In a process that cannot import it."""
    code = (
        "import sys; sys.modules['cryptography'] = None\n"
        "from pathlib import Path\n"
        "from ordercast.model.errors import ConfigError\n"
        "from ordercast.net.cluster.certificates import write_certificates\n"
        f"try: write_certificates('demo', ['a'], Path({str(tmp_path)!r}))\n"
        "except ConfigError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == (
        "making certificates needs the extra 'certs': pip install 'ordercast[certs]'\n"
    )
