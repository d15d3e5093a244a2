"""A fleet in compose: a service and a volume for each node, and instructions."""

from __future__ import annotations

from levywalk.fleet.setup.container import CONFIG, PORT, STATE, USER
from levywalk.fleet.setup.manifest import Manifest


def compose_file(manifest: Manifest) -> str:
    """Return the compose file of a fleet."""
    nodes = range(manifest.nodes)
    services = "".join(
        f"  node-{v}:\n    <<: *node\n    volumes:\n      - ./node-{v}:{CONFIG}:ro\n      - "
        f"node-{v}:{STATE}\n"
        for v in nodes
    )
    return _COMPOSE.format(
        name=manifest.name,
        services=services,
        volumes="".join(f"  node-{v}: {{}}\n" for v in nodes),
        user=USER,
        port=PORT,
        config=CONFIG,
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

INSTRUCTIONS = f"""\
# Running the fleet with compose

Build the image from levywalk's wheel, and make the user of the container the owner of the nodes' \
files: only the owner
may read the keys:

    cp …/levywalk-*.whl .
    docker build -t levywalk .
    sudo chown -R {USER}:{USER} node-*
    docker compose up -d

When all nodes run, start the walk, once:

    docker compose exec node-{{start}} levywalk fleet begin {CONFIG}/node.toml

Then, and at any time:

    docker compose exec node-{{start}} levywalk fleet status {CONFIG}/node.toml
    docker compose restart node-1          # loses nothing
    docker compose down                    # keeps the volumes; with -v the walk is lost

The folder `authority` is not mounted anywhere: keep it with the operator.
"""
