"""The keys of a node's ports, which can be replaced while they are open."""

from __future__ import annotations

from typing import Any

import grpc

from levywalk.fleet.identity.node_identity import Identity


def present_credentials(identity: Identity) -> Any:
    """Return credentials for a port that asks callers for certificates of the fleet's authority.

    Every handshake uses the keys that the identity has then.
    """

    def present() -> Any:
        tls = identity.tls()
        return grpc.ssl_server_certificate_configuration(
            [(tls.key, tls.certificate)], root_certificates=tls.authority
        )

    used = [identity.certificate]

    def fetch() -> Any:
        if identity.certificate is used[0]:
            return None  # as before
        used[0] = identity.certificate
        return present()

    return grpc.dynamic_ssl_server_credentials(present(), fetch, require_client_authentication=True)
