"""Files that run a fleet elsewhere: a systemd unit, a compose file, Kubernetes objects, and
instructions.

In containers a node's addresses are the names that compose and Kubernetes give it, so the fleet
must be created for them: ``create(..., deploy="compose")``.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from levywalk import checks
from levywalk.errors import InvalidParameter
from levywalk.fleet.setup.manifest import Manifest
from levywalk.fleet.setup.node_file import NodeFile, node_files

KINDS = ("systemd", "compose", "kubernetes")
OWN_ADDRESSES = ("compose", "kubernetes")
PORT, METRICS = 7400, 7401  # port in a container, which has its own network
USER = 10001  # in a container
_CONFIG, _STATE = "/etc/levywalk", "/var/lib/levywalk"  # in a container
_SECRET = 1_000_000  # bytes; Kubernetes accepts 1 MiB, including names


class Place(NamedTuple):
    """Where a node runs: how others reach it, where it listens, and where its state is if not in
    its folder.
    """

    address: str
    listen: str
    metrics: str | None
    state: Path | None = None
    local: bool = False  # whether all nodes are on this machine


def place(kind: str, name: str, v: int, metrics: bool = True) -> Place:
    """Return where a node runs in compose or Kubernetes.

    Examples
    --------
    >>> place("compose", "five", 3).address, place("kubernetes", "five", 3).address
    ('node-3:7400', 'levywalk-five-3-0.levywalk-five:7400')
    """
    host = f"node-{v}" if kind == "compose" else f"levywalk-{name}-{v}-0.levywalk-{name}"
    return Place(
        f"{host}:{PORT}",
        f"0.0.0.0:{PORT}",
        f"127.0.0.1:{METRICS}" if metrics else None,
        Path(_STATE),
    )


def files(folder: str | Path, kind: str) -> dict[str, str]:
    """Return the files that run a fleet, by their path in its folder.

    Parameters
    ----------
    kind
        "systemd", "compose" or "kubernetes".

    Examples
    --------
    >>> import tempfile
    >>> import levywalk as lw
    >>> from levywalk.fleet.setup.create import create
    >>> with tempfile.TemporaryDirectory() as name:
    ...     at = create(
    ...         Path(name) / "five",
    ...         lw.ring(5),
    ...         lw.homogeneous(5),
    ...         lw.mhlj(),
    ...         steps=100,
    ...         step_size="theory",
    ...     )
    ...     list(files(at, "systemd"))
    ['levywalk-node@.service', 'INSTALL.md']
    """
    checks.choice("kind", kind, KINDS)
    manifest = Manifest.read(Path(folder) / "manifest.json")
    nodes = node_files(folder, manifest.nodes)
    if kind == "systemd":
        return {
            "levywalk-node@.service": _UNIT,
            "INSTALL.md": _SYSTEMD.format(start=manifest.start, name=manifest.name),
        }
    _check_places(kind, manifest, nodes)
    image = {"Dockerfile": _DOCKERFILE, ".dockerignore": _DOCKERIGNORE}
    if kind == "compose":
        return {
            "compose.yaml": _compose(manifest),
            **image,
            "INSTALL.md": _COMPOSE_TEXT.format(start=manifest.start),
        }
    name = f"levywalk-{manifest.name}"
    return {
        "kubernetes.yaml": _kubernetes(name, nodes),
        "kustomization.yaml": _kustomization(name, Path(folder), nodes),
        **image,
        "INSTALL.md": _KUBERNETES_TEXT.format(start=manifest.start, name=name),
    }


def _check_places(kind: str, manifest: Manifest, nodes: list[NodeFile]) -> None:
    """Refuse a fleet whose addresses are not those that its containers will have."""
    for node in nodes:
        own = place(kind, manifest.name, node.id)
        found = [(node.listen, own.listen), (str(node.state), str(own.state))]
        found += [
            (peer.address, place(kind, manifest.name, peer.id).address) for peer in node.neighbours
        ]
        for is_, must in found:
            if is_ != must:
                raise InvalidParameter(
                    f"node {node.id} of this fleet has {is_} where {kind} needs {must}: "
                    f"create the fleet for it, with levywalk fleet init --for {kind}"
                )


_UNIT = """\
# One node; %i is the name of its folder in /var/lib/levywalk, such as node-3.
[Unit]
Description=levywalk node %i
Wants=network-online.target
After=network-online.target
# Restart a node whatever happened to it, however often.
StartLimitIntervalSec=0

[Service]
Type=exec
User=levywalk
Group=levywalk
UMask=0077
StateDirectory=levywalk/%i
StateDirectoryMode=0700
WorkingDirectory=/var/lib/levywalk/%i
Environment=MALLOC_ARENA_MAX=1 OPENBLAS_NUM_THREADS=1
ExecStart=/usr/local/bin/levywalk node /var/lib/levywalk/%i/node.toml
Restart=always
RestartSec=5
TimeoutStopSec=30

NoNewPrivileges=yes
CapabilityBoundingSet=
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service

[Install]
WantedBy=multi-user.target
"""

_SYSTEMD = """\
# Running the fleet "{name}" under systemd

On each machine, as root, with levywalk at /usr/local/bin/levywalk (otherwise change ExecStart in \
the unit):

    useradd --system --home-dir /var/lib/levywalk levywalk
    cp levywalk-node@.service /etc/systemd/system/
    install -d -m 755 /var/lib/levywalk

For each node of that machine, here node 3. Its folder contains its private key and its data: \
copy it only to that
machine. The folder `authority` stays with the operator.

    cp -r node-3 /var/lib/levywalk/
    chown -R levywalk:levywalk /var/lib/levywalk/node-3
    chmod -R go= /var/lib/levywalk/node-3
    systemctl daemon-reload
    systemctl enable --now levywalk-node@node-3

When all nodes run, start the walk, once, on the machine of node {start}:

    runuser -u levywalk -- levywalk fleet begin /var/lib/levywalk/node-{start}/node.toml

After restarts, crashes and updates of machines a node continues by itself from
/var/lib/levywalk/node-N/state. Never start a node from a copy of an old state, \
and never run one node twice.
"""

_DOCKERFILE = f"""\
# The image of a node. Put levywalk's wheel beside this file first.
FROM python:3.12-slim
COPY levywalk-*.whl /tmp/
RUN wheel=$(ls /tmp/levywalk-*.whl) \\
 && pip install --no-cache-dir "$wheel[fleet]" \\
 && rm "$wheel" \\
 && useradd --system --uid {USER} --user-group --no-create-home levywalk \\
 && install -d -o levywalk -g levywalk -m 700 {_STATE}
ENV MALLOC_ARENA_MAX=1 OPENBLAS_NUM_THREADS=1
USER {USER}:{USER}
"""

# Keys and data are beside the Dockerfile, and must not be copied into an image.
_DOCKERIGNORE = """\
*
!levywalk-*.whl
"""


def _compose(manifest: Manifest) -> str:
    nodes = range(manifest.nodes)
    services = "".join(
        f"  node-{v}:\n    <<: *node\n    volumes:\n      - ./node-{v}:{_CONFIG}:ro\n      - "
        f"node-{v}:{_STATE}\n"
        for v in nodes
    )
    return _COMPOSE.format(
        name=manifest.name,
        services=services,
        volumes="".join(f"  node-{v}: {{}}\n" for v in nodes),
        user=USER,
        port=PORT,
        config=_CONFIG,
    )


_COMPOSE = """\
# The fleet "{name}" on one machine: a service and a volume for each node. See INSTALL.md.
name: levywalk-{name}

x-node: &node
  image: ${{LEVYWALK_IMAGE:-levywalk}}
  command: [levywalk, node, {config}/node.toml]
  user: "{user}:{user}"
  restart: unless-stopped
  stop_grace_period: 30s
  read_only: true
  cap_drop: [ALL]
  security_opt: ["no-new-privileges:true"]
  environment:
    MALLOC_ARENA_MAX: "1"
    OPENBLAS_NUM_THREADS: "1"
  networks: [fleet]
  healthcheck:
    test: [CMD, python, -c, \
"import socket; socket.create_connection(('127.0.0.1', {port}), 3).close()"]
    interval: 30s
    timeout: 10s
    start_period: 30s

services:
{services}
networks:
  fleet:
    internal: true

# A node's volume contains its state of the hand-offs: do not remove one before the walk is over.
volumes:
{volumes}"""

_COMPOSE_TEXT = f"""\
# Running the fleet with compose

Build the image from levywalk's wheel, and make the user of the container the owner of the nodes' \
files: only the owner
may read the keys:

    cp …/levywalk-*.whl .
    docker build -t levywalk .
    sudo chown -R {USER}:{USER} node-*
    docker compose up -d

When all nodes run, start the walk, once:

    docker compose exec node-{{start}} levywalk fleet begin {_CONFIG}/node.toml

Then, and at any time:

    docker compose exec node-{{start}} levywalk fleet status {_CONFIG}/node.toml
    docker compose restart node-1          # loses nothing
    docker compose down                    # keeps the volumes; with -v the walk is lost

The folder `authority` is not mounted anywhere: keep it with the operator.
"""


def _own_files(node: NodeFile) -> list[str]:
    """Return the names of the files in a node's folder. Its pod needs all of them."""
    folder = node.manifest.parent
    paths = (node.manifest, node.key, node.certificate, node.authority, node.data)
    return ["node.toml", *(path.name for path in paths if path.parent == folder)]


def _kustomization(name: str, folder: Path, nodes: list[NodeFile]) -> str:
    lines = [
        "# Secrets are made from these files when this is applied: no key is written to any other "
        "file.",
        "apiVersion: kustomize.config.k8s.io/v1beta1",
        "kind: Kustomization",
        "resources: [kubernetes.yaml]",
        "generatorOptions:",
        "  disableNameSuffixHash: true",
        "secretGenerator:",
    ]
    for node in nodes:
        names = _own_files(node)
        at = folder / f"node-{node.id}"
        size = sum((at / file).stat().st_size for file in names if (at / file).exists())
        if size > _SECRET:
            raise InvalidParameter(
                f"the files of node {node.id} have {size} bytes, but a Kubernetes secret has at "
                "most 1 MiB: "
                f"put its data on its volume, and data = '{_STATE}/{node.data.name}' into its "
                "node.toml"
            )
        lines += [f"  - name: {name}-{node.id}", "    files:"]
        lines += [f"      - node-{node.id}/{file}" for file in names]
    return "\n".join(lines) + "\n"


def _kubernetes(name: str, nodes: list[NodeFile]) -> str:
    parts = [_SERVICE.format(name=name, port=PORT)]
    for node in nodes:
        names = ", ".join(f"/secret/{file}" for file in _own_files(node))
        parts.append(
            _STATEFUL_SET.format(
                name=name,
                node=node.id,
                files=names,
                port=PORT,
                user=USER,
                config=_CONFIG,
                state=_STATE,
            )
        )
    return "---\n".join(parts)


_SERVICE = """\
# A StatefulSet for each node, so that a machine of the cluster sees the keys and data of its own
# nodes alone. Apply with kustomize, which makes the secrets: kubectl apply -k . See INSTALL.md.
apiVersion: v1
kind: Service
metadata:
  name: {name}
  labels: {{app.kubernetes.io/name: levywalk, app.kubernetes.io/instance: {name}}}
spec:
  clusterIP: None
  # A node must also find neighbours that are still starting.
  publishNotReadyAddresses: true
  selector: {{app.kubernetes.io/instance: {name}}}
  ports:
    - {{name: fleet, port: {port}}}
---
# The holder and its guardian must not be stopped at the same time.
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {name}
spec:
  maxUnavailable: 1
  selector:
    matchLabels: {{app.kubernetes.io/instance: {name}}}
"""

_STATEFUL_SET = """\
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: {name}-{node}
  labels: {{app.kubernetes.io/name: levywalk, app.kubernetes.io/instance: {name}, \
levywalk/node: "{node}"}}
spec:
  replicas: 1  # never more: a node must not run twice
  serviceName: {name}
  selector:
    matchLabels: {{app.kubernetes.io/instance: {name}, levywalk/node: "{node}"}}
  template:
    metadata:
      labels: {{app.kubernetes.io/name: levywalk, app.kubernetes.io/instance: {name}, \
levywalk/node: "{node}"}}
    spec:
      automountServiceAccountToken: false
      terminationGracePeriodSeconds: 30
      securityContext:
        runAsNonRoot: true
        runAsUser: {user}
        runAsGroup: {user}
        fsGroup: {user}
        fsGroupChangePolicy: OnRootMismatch
        seccompProfile: {{type: RuntimeDefault}}
      initContainers:
        # With fsGroup, which the volume needs, Kubernetes lets the group read every file of a
        # secret, whatever defaultMode says; a node refuses a key that others may read. So it gets
        # its own copy, in memory.
        - name: keys
          image: levywalk
          command: [install, -m, "600", -t, {config}, {files}]
          securityContext: &closed
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: {{drop: [ALL]}}
          volumeMounts:
            - {{name: secret, mountPath: /secret, readOnly: true}}
            - {{name: config, mountPath: {config}}}
      containers:
        - name: node
          image: levywalk
          command: [levywalk, node, {config}/node.toml]
          env:
            - {{name: MALLOC_ARENA_MAX, value: "1"}}
            - {{name: OPENBLAS_NUM_THREADS, value: "1"}}
          ports:
            - {{name: fleet, containerPort: {port}}}
          readinessProbe:
            tcpSocket: {{port: fleet}}
          livenessProbe:
            tcpSocket: {{port: fleet}}
            initialDelaySeconds: 30
            periodSeconds: 30
            failureThreshold: 4
          resources:
            requests: {{cpu: 50m, memory: 64Mi}}
          securityContext: *closed
          volumeMounts:
            - {{name: config, mountPath: {config}, readOnly: true}}
            - {{name: state, mountPath: {state}}}
      volumes:
        - name: secret
          secret: {{secretName: {name}-{node}}}
        - name: config
          emptyDir: {{medium: Memory}}
  # The node's state of the hand-offs; it stays when the pod moves.
  volumeClaimTemplates:
    - metadata:
        name: state
      spec:
        accessModes: [ReadWriteOnce]
        resources:
          requests: {{storage: 1Gi}}
"""

_KUBERNETES_TEXT = f"""\
# Running the fleet in Kubernetes

Build the image from levywalk's wheel, and push it to a registry that the cluster can reach:

    cp …/levywalk-*.whl .
    docker build -t REGISTRY/levywalk .
    docker push REGISTRY/levywalk
    kustomize edit set image levywalk=REGISTRY/levywalk

Create the secrets and start the nodes. Each node is a StatefulSet with its own secret and volume. \
An init container
copies the keys to a folder in memory with mode 0600, because a node refuses a key that others \
may read.

    kubectl apply -k .
    kubectl wait --for=condition=ready pod -l app.kubernetes.io/instance={{name}}

When all nodes run, start the walk, once:

    kubectl exec {{name}}-{{start}}-0 -c node -- levywalk fleet begin {_CONFIG}/node.toml

Then, and at any time:

    kubectl exec {{name}}-{{start}}-0 -c node -- levywalk fleet status {_CONFIG}/node.toml
    kubectl rollout restart statefulset/{{name}}-1     # loses nothing

Whoever may read the namespace's secrets has all nodes' keys and data: \
owners who do not trust each other need a
namespace or a cluster each. The folder `authority` is not part of this: \
keep it with the operator. The volumes stay
after `kubectl delete -k .`; do not remove one before the walk is over.
"""
