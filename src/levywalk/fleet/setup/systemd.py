"""A fleet under systemd: the unit of a node, and instructions."""

from __future__ import annotations

UNIT = """\
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

INSTRUCTIONS = """\
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
