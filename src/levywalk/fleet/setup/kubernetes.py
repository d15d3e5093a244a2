"""A fleet in Kubernetes: a StatefulSet and a secret for each node, and instructions."""

from __future__ import annotations

from pathlib import Path

from levywalk.errors import InvalidParameter
from levywalk.fleet.setup.container import CONFIG, PORT, STATE, USER
from levywalk.fleet.setup.node_file import NodeFile

_SECRET = 1_000_000  # bytes; Kubernetes accepts 1 MiB, including names


def _own_files(node: NodeFile) -> list[str]:
    """Return the names of the files in a node's folder. Its pod needs all of them."""
    folder = node.manifest.parent
    paths = (node.manifest, node.key, node.certificate, node.authority, node.data)
    return ["node.toml", *(path.name for path in paths if path.parent == folder)]


def kustomization(name: str, folder: Path, nodes: list[NodeFile]) -> str:
    """Return the file from which kustomize makes the secrets of the nodes."""
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
                f"put its data on its volume, and data = '{STATE}/{node.data.name}' into its "
                "node.toml"
            )
        lines += [f"  - name: {name}-{node.id}", "    files:"]
        lines += [f"      - node-{node.id}/{file}" for file in names]
    return "\n".join(lines) + "\n"


def objects(name: str, nodes: list[NodeFile]) -> str:
    """Return the service of a fleet and a StatefulSet for each node."""
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
                config=CONFIG,
                state=STATE,
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

INSTRUCTIONS = f"""\
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

    kubectl exec {{name}}-{{start}}-0 -c node -- levywalk fleet begin {CONFIG}/node.toml

Then, and at any time:

    kubectl exec {{name}}-{{start}}-0 -c node -- levywalk fleet status {CONFIG}/node.toml
    kubectl rollout restart statefulset/{{name}}-1     # loses nothing

Whoever may read the namespace's secrets has all nodes' keys and data: \
owners who do not trust each other need a
namespace or a cluster each. The folder `authority` is not part of this: \
keep it with the operator. The volumes stay
after `kubectl delete -k .`; do not remove one before the walk is over.
"""
