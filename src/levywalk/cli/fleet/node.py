"""``levywalk node``: run one node."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

NODE_EXAMPLES = """Examples:

levywalk node my-fleet/node-3/node.toml --check

levywalk node my-fleet/node-3/node.toml"""


def node(
    file: Annotated[Path, typer.Argument(metavar="NODE.toml", help="The node file.")],
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Only check all files, and print what the node publishes about its data.",
        ),
    ] = False,
) -> None:
    """Run one node of a fleet in this terminal, as systemd and containers do. Ctrl-C stops it."""
    if check:
        _check(file)
        return
    from levywalk.fleet.runtime.launch import ENVIRONMENT, command
    from levywalk.fleet.setup.node_file import NodeFile

    NodeFile.read(file)
    given = command(file.absolute())
    os.execve(given[0], given, os.environ | ENVIRONMENT)


def _check(path: Path) -> None:
    """Read everything that a node reads when it starts."""
    from levywalk.fleet.identity.certificates import key_fingerprint
    from levywalk.fleet.identity.node_identity import Identity
    from levywalk.fleet.operate.log_text import count
    from levywalk.fleet.runtime.own_data import own_part, scores
    from levywalk.fleet.setup.manifest import Manifest
    from levywalk.fleet.setup.node_file import NodeFile
    from levywalk.fleet.setup.update_check_terms import check_own_samples

    file = NodeFile.read(path)
    manifest = Manifest.read(file.manifest)
    identity = Identity.load(file.key, file.certificate, file.authority, node=file.id)
    problem, metrics = own_part(manifest, file)
    degree = len(file.neighbours) + (manifest.self_loops == "counted")
    found = scores(manifest, problem, degree, file.score)
    print(
        f"node {file.id} of fleet {manifest.name}, {manifest.nodes} nodes; listens on {file.listen}"
    )
    print(f"certificate valid until {identity.certificate.not_valid_after_utc:%Y-%m-%d}")
    print(f"fingerprint, for its neighbours' node files: {key_fingerprint(identity.certificate)}")
    told = ", ".join(f"{score:.6g}" for score in found)
    if problem is None:
        print(f"no data, {count(degree, 'neighbour')}: it passes the model on without an update")
        print(f"its neighbours learn the score {told}")
        return
    if manifest.code is not None:
        print(f"builds its problem from {file.model}, whose sha256 is that of the manifest")
        _print_built(problem, metrics)
    else:
        samples, features = problem.n_samples, manifest.n_features  # type: ignore[attr-defined]
        print(
            f"{count(samples, 'sample')} of {count(features, 'feature')}, "
            f"{count(degree, 'neighbour')}"
        )
    private = manifest.published.privacy
    rest = "nothing of its data" if private is None else "noisy gradients"
    print(
        f"L_v = {float(problem.smoothness[0]):.6g}; its neighbours learn the score {told}, and "
        f"{rest}"
    )
    if private is not None:
        each = "" if private.tokens == 1 else f" ({private.cap:,} for each token)"
        print(
            f"privacy: clip {private.privacy.clip:g}, noise {private.privacy.noise:g}, at most "
            f"{count(private.whole_cap, 'update')} of this node{each}, ε at most "
            f"{private.privacy.epsilon(private.whole_cap):.4g}: {private.privacy.definition}"
        )
    check = manifest.published.check
    if check is not None:
        noise = "" if private is not None else "; there is no noise, and nothing is private"
        print(
            f"guardians compare models: gradients are clipped to {check.clip:g}, and a sender is "
            f"avoided after {count(check.avoid_after, 'refused model')}{noise}"
        )
        check_own_samples(manifest.published, problem)


def _print_built(problem: Any, metrics: Any) -> None:
    """Say what a user's own file has built from the node's data."""
    from levywalk.fleet.operate.log_text import count

    shard = problem.shards[0]
    held = 0 if shard.held_targets is None else len(shard.held_targets)
    named = "no metrics" if metrics is None else f"metrics {', '.join(metrics.names)}"
    print(
        f"{count(len(shard.targets), 'sample')}, {count(held, 'sample')} held out, {named}; a "
        f"model of {count(problem.dim, 'number')}"
    )
