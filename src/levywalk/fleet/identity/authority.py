"""The certificate authority of a fleet, and the keys and certificates that it issues for mutual
TLS.

The authority's folder, on the operator's machine only:

==============  ====================================================================================
``ca.key``      the authority's private key (P-256), readable by its owner alone; whoever has it
                can add nodes
``ca.crt``      its certificate, which every node has
``node-3/``     the files that `Authority.issue` made for node 3, to be moved to its machine
==============  ====================================================================================

A node's folder:

==============  ====================================================================================
``node.key``    two private keys, readable by the owner alone: P-256 for TLS (gRPC's BoringSSL
                refuses Ed25519 certificates), and Ed25519, with which the node signs hand-offs
``node.crt``    the certificate: the node's id and fleet, its addresses, both public keys
``ca.crt``      the certificate of the fleet's authority
==============  ====================================================================================

The authority signs the certificate and so confirms both public keys. Whoever has the certificate of
a node can check that node's signatures (`Identity.learn`). Besides its addresses, a certificate
contains a name made of the node's id (`server_name`). A caller that asks TLS for that name knows
that it is connected to that node, whatever its address is.

Files are not encrypted, and there is no revocation list: an operator who no longer trusts a key
removes its fingerprint from the neighbours' node files.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from levywalk import checks
from levywalk.errors import InvalidParameter
from levywalk.fleet.identity.addresses import as_ip, host_names
from levywalk.fleet.identity.certificates import (
    BACKDATED,
    FLEET_NAME,
    HIGHEST_NODE,
    NEW_AUTHORITY,
    OCTETS,
    SIGNING_KEY,
    CertificateFacts,
    check_date,
    check_node,
    date_text,
    fleet_of,
    key_usage,
    parse,
    rotations_extension,
    server_name,
    signed_by,
    subject_name,
    unsigned_certificate,
    validity,
)
from levywalk.fleet.identity.errors import OutOfDate, WrongKey
from levywalk.fleet.identity.key_files import (
    CA_CERTIFICATE,
    CA_KEY,
    NODE_CERTIFICATE,
    NODE_KEY,
    OPERATOR_TLS_CERTIFICATE,
    OPERATOR_TLS_KEY,
    certificate_pem,
    make_folder,
    p256_key,
    pem_blocks,
    private_pem,
    public_der,
    read_small,
    write_private,
    write_public,
)
from levywalk.fleet.identity.library import (
    SECP256R1,
    Ed25519PrivateKey,
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
    Encoding,
    ExtendedKeyUsageOID,
    PublicFormat,
    generate_private_key,
    hashes,
    x509,
)
from levywalk.fleet.identity.node_identity import check_pair, read_node_key
from levywalk.fleet.identity.operator_certificate import operator_uri
from levywalk.fleet.identity.rotation import endorsed, keys_fingerprint

AUTHORITY_DAYS, NODE_DAYS = 3650, 365


class Authority:
    """A fleet's certificate authority: `create` it once, `load` it to issue and renew."""

    def __init__(
        self, folder: Path, fleet: str, key: EllipticCurvePrivateKey, certificate: x509.Certificate
    ) -> None:
        self.folder, self.fleet, self.certificate = folder, fleet, certificate
        self._key = key

    def __repr__(self) -> str:
        return f"Authority({str(self.folder)!r}, {self.fleet!r})"

    @classmethod
    def create(
        cls,
        folder: str | Path,
        fleet_name: str,
        days: int = AUTHORITY_DAYS,
        *,
        now: datetime | None = None,
    ) -> Authority:
        """Create the key and the certificate of a new fleet's authority,
        in a folder that has none.
        """
        folder = Path(folder)
        if not FLEET_NAME.fullmatch(fleet_name):
            raise InvalidParameter(
                "fleet_name must be 1 to 32 of a-z, 0-9 and '-', and not begin or end with '-', "
                f"got {fleet_name!r}"
            )
        begin, end = validity(days, now)
        key = generate_private_key(SECP256R1())
        name = subject_name(fleet_name, f"levywalk {fleet_name} authority")
        usage = key_usage(key_cert_sign=True, crl_sign=True)
        certificate = (
            unsigned_certificate(name, name, key.public_key(), begin, end)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .sign(key, hashes.SHA256())
        )
        make_folder(folder)
        write_private(
            folder / CA_KEY,
            private_pem(key),
            "load it with Authority.load, or give the new fleet a folder of its own",
        )
        write_public(folder / CA_CERTIFICATE, certificate_pem(certificate))
        return cls(folder, fleet_name, key, certificate)

    @classmethod
    def load(cls, folder: str | Path, *, now: datetime | None = None) -> Authority:
        """Read an authority.

        Its key must be readable by its owner alone and belong to the certificate, which must be
        valid now.
        """
        folder = Path(folder)
        where = folder / CA_CERTIFICATE
        certificate = parse(read_small(where), str(where))
        fleet = fleet_of(certificate, str(where))
        check_date(
            certificate,
            str(where),
            f"the authority of fleet {fleet}",
            NEW_AUTHORITY,
            now,
        )
        source = str(folder / CA_KEY)
        (pem,) = pem_blocks(read_small(folder / CA_KEY, private=True), source, "PRIVATE KEY")
        key = p256_key(pem, source)
        if public_der(key) != public_der(certificate):
            raise WrongKey(
                f"{source} does not belong to {where}: put the files of one authority beside each "
                "other"
            )
        return cls(folder, fleet, key, certificate)

    def issue(
        self,
        node_id: int,
        addresses: Iterable[str],
        days: int = NODE_DAYS,
        *,
        folder: str | Path | None = None,
        now: datetime | None = None,
    ) -> Path:
        """Create a node's keys and certificate; return their folder.

        Parameters
        ----------
        addresses
            Where other nodes reach it: names and IP addresses. Ports are ignored.
        folder
            A folder without a key; by default ``node-<id>`` in the authority's folder.
        """
        node = checks.integer("node_id", node_id, low=0, high=HIGHEST_NODE)
        folder = self.folder / f"node-{node}" if folder is None else Path(folder)
        tls, signing = generate_private_key(SECP256R1()), Ed25519PrivateKey.generate()
        public = signing.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        certificate = self._certify(
            tls.public_key(),
            CertificateFacts(self.fleet, node, host_names(addresses), public),
            days,
            now,
        )
        make_folder(folder)
        remedy = f"renew {NODE_CERTIFICATE} (levywalk fleet renew)"
        if not (folder / NODE_CERTIFICATE).exists():
            remedy = f"an earlier attempt was interrupted: remove {NODE_KEY} and issue again"
        write_private(folder / NODE_KEY, private_pem(tls) + private_pem(signing), remedy)
        write_public(folder / CA_CERTIFICATE, certificate_pem(self.certificate))
        write_public(folder / NODE_CERTIFICATE, certificate_pem(certificate))
        return folder

    def renew(
        self,
        node_id: int,
        addresses: Iterable[str] | None = None,
        days: int = NODE_DAYS,
        *,
        folder: str | Path | None = None,
        now: datetime | None = None,
    ) -> Path:
        """Replace a node's certificate, also an expired one, by a new one for the same keys; return
        its path. This needs only the old certificate. The node's keys may be on its own machine.
        Without ``addresses`` the addresses stay the same.
        """
        node = checks.integer("node_id", node_id, low=0, high=HIGHEST_NODE)
        path = (self.folder / f"node-{node}" if folder is None else Path(folder)) / NODE_CERTIFICATE
        old = parse(read_small(path), str(path))
        about = signed_by(self.certificate, old, str(path))
        check_node(about, self.fleet, node, str(path))
        if addresses is not None:
            about = about._replace(addresses=host_names(addresses))
        key = old.public_key()
        assert isinstance(key, EllipticCurvePublicKey)  # `signed_by` has checked this
        new = self._certify(key, about, days, now)
        write_public(path.with_name(CA_CERTIFICATE), certificate_pem(self.certificate))
        write_public(path, certificate_pem(new))
        return path

    def rotate(
        self,
        key: Path,
        certificate: Path,
        folder: Path,
        days: int = NODE_DAYS,
        *,
        now: datetime | None = None,
    ) -> Path:
        """Create new keys for a node, which its present key has signed, and their certificate;
        return their folder.

        Parameters
        ----------
        key, certificate
            The files of its present keys; the certificate may have expired.
        folder
            A folder without a key.
        """
        old = parse(read_small(certificate), str(certificate))
        about = signed_by(self.certificate, old, str(certificate))
        check_node(about, self.fleet, None, str(certificate))
        tls, signing = read_node_key(key)
        check_pair(tls, signing, old, about, key, certificate)
        fresh, signer = generate_private_key(SECP256R1()), Ed25519PrivateKey.generate()
        public = signer.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        print_ = keys_fingerprint(public_der(fresh), public)
        rotations = endorsed(
            self.fleet, about.node, about.rotations, public_der(tls), signing, print_
        )
        made = about._replace(signing=public, rotations=rotations)
        new = self._certify(fresh.public_key(), made, days, now)
        make_folder(folder)
        remedy = "an earlier attempt was interrupted: remove the folder and rotate again"
        write_private(folder / NODE_KEY, private_pem(fresh) + private_pem(signer), remedy)
        write_public(folder / CA_CERTIFICATE, certificate_pem(self.certificate))
        write_public(folder / NODE_CERTIFICATE, certificate_pem(new))
        return folder

    def issue_operator(
        self, folder: str | Path, days: int = NODE_DAYS, *, now: datetime | None = None
    ) -> Path:
        """Create the key and the certificate with which an operator asks nodes from elsewhere;
        return their folder, which must have no such key.

        The certificate is for the calling end of a connection alone, and names no node.
        """
        folder = Path(folder)
        key = generate_private_key(SECP256R1())
        begin, end = self._validity(days, now)
        subject = subject_name(self.fleet, f"levywalk {self.fleet} operator")
        name = x509.UniformResourceIdentifier(operator_uri(self.fleet))
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
        certificate = (
            unsigned_certificate(subject, self.certificate.subject, key.public_key(), begin, end)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(key_usage(digital_signature=True), critical=True)
            .add_extension(usage, critical=False)
            .add_extension(x509.SubjectAlternativeName([name]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        make_folder(folder)
        write_private(
            folder / OPERATOR_TLS_KEY,
            private_pem(key),
            "give another folder: levywalk fleet operator DIR OUT",
        )
        write_public(folder / CA_CERTIFICATE, certificate_pem(self.certificate))
        write_public(folder / OPERATOR_TLS_CERTIFICATE, certificate_pem(certificate))
        return folder

    def _validity(self, days: int, now: datetime | None) -> tuple[datetime, datetime]:
        """Return the first and the last moment of a new certificate, within the authority's."""
        begin, end = validity(days, now)
        end = min(
            end, self.certificate.not_valid_after_utc
        )  # a longer validity would have no effect
        if end <= begin + BACKDATED:
            raise OutOfDate(
                f"{self.folder / CA_CERTIFICATE}: the authority of fleet {self.fleet} ends on "
                f"{date_text(end)}: "
                f"{NEW_AUTHORITY}"
            )
        return begin, end

    def _certify(
        self, key: EllipticCurvePublicKey, about: CertificateFacts, days: int, now: datetime | None
    ) -> x509.Certificate:
        begin, end = self._validity(days, now)
        names: list[x509.GeneralName] = [
            x509.UniformResourceIdentifier(f"levywalk://{about.fleet}/node/{about.node}"),
            x509.DNSName(server_name(about.node)),
        ]
        for host in about.addresses:
            ip = as_ip(host)
            names.append(x509.DNSName(host) if ip is None else x509.IPAddress(ip))
        subject = subject_name(about.fleet, f"levywalk {about.fleet} node {about.node}")
        both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        authority_key = self._key.public_key()
        made = (
            unsigned_certificate(subject, self.certificate.subject, key, begin, end)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(key_usage(digital_signature=True), critical=True)
            .add_extension(x509.ExtendedKeyUsage(both), critical=False)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key), critical=False
            )
            .add_extension(
                x509.UnrecognizedExtension(SIGNING_KEY, OCTETS + about.signing), critical=False
            )
        )
        if about.rotations.number:
            made = made.add_extension(rotations_extension(about.rotations), critical=False)
        return made.sign(self._key, hashes.SHA256())
