"""Files for systemd, compose and Kubernetes: well-formed, and in step with the node files."""

import shutil
import subprocess

import pytest
import yaml

import levywalk as lw
from levywalk.errors import InvalidParameter
from levywalk.fleet.identity.node_identity import Identity
from levywalk.fleet.setup import deploy
from levywalk.fleet.setup.container import PORT, USER
from levywalk.fleet.setup.create import PrivateProblem, create
from levywalk.fleet.setup.deploy import files
from levywalk.fleet.setup.manifest import Manifest
from levywalk.fleet.setup.node_file import NodeFile, host_port

N = 4


def make(tmp_path, kind, problem=None, **more):
    problem = problem or lw.homogeneous(N)
    return create(
        tmp_path / "fleet",
        lw.ring(N),
        problem,
        lw.mhlj(),
        steps=60,
        step_size=0.01,
        name="four",
        deploy=kind,
        **more,
    )


def node_of(folder, v):
    return NodeFile.read(folder / f"node-{v}" / "node.toml")


@pytest.mark.parametrize("kind", deploy.KINDS)
def test_founding_writes_the_files(kind, tmp_path):
    folder = make(tmp_path, kind)
    made = files(folder, kind)
    for path, text in made.items():
        assert (folder / path).read_text() == text
    start = Manifest.read(folder / "manifest.json").start
    begin = [line for line in made["INSTALL.md"].splitlines() if "levywalk fleet begin" in line]
    assert (
        len(begin) == 1
    )  # the first token is created by the operator's command, once, where the manifest says
    assert f"-{start}" in begin[0]
    for v in range(N):
        for text in made.values():
            assert (folder / f"node-{v}" / "node.key").read_text()[30:60] not in text


@pytest.mark.parametrize("kind", deploy.OWN_ADDRESSES)
def test_containers_do_not_share_a_machine(kind, tmp_path):
    folder = make(tmp_path, kind)
    for v in range(N):
        node = node_of(folder, v)
        assert str(node.state) == "/var/lib/levywalk"
        assert all(peer.state is None for peer in node.neighbours)
        assert host_port(node.listen) == ("0.0.0.0", PORT)
        assert Identity.open(folder / f"node-{v}").addresses == (
            deploy.place(kind, "four", v).address.rpartition(":")[0],
        )


@pytest.mark.parametrize("kind", deploy.OWN_ADDRESSES)
def test_a_fleet_with_other_addresses_is_refused(kind, tmp_path):
    folder = make(tmp_path, None)
    with pytest.raises(InvalidParameter, match=f"fleet init --for {kind}"):
        files(folder, kind)
    assert "INSTALL.md" in files(folder, "systemd")  # which any addresses suit


def test_other_kinds_are_refused(tmp_path):
    with pytest.raises(InvalidParameter, match="kind must be one of 'systemd'"):
        files(make(tmp_path, None), "nomad")


# systemd


def settings(unit):
    return dict(
        line.split("=", 1) for line in unit.splitlines() if "=" in line and not line.startswith("#")
    )


def test_the_unit_confines_the_node_and_starts_it_again(tmp_path):
    unit = settings(files(make(tmp_path, "systemd"), "systemd")["levywalk-node@.service"])
    assert unit["ExecStart"].endswith("levywalk node /var/lib/levywalk/%i/node.toml")
    assert unit["StateDirectory"] == "levywalk/%i"  # the one place that it may write to
    assert (unit["Restart"], unit["NoNewPrivileges"], unit["ProtectSystem"]) == (
        "always",
        "yes",
        "strict",
    )
    assert unit["User"] == "levywalk"
    assert "MALLOC_ARENA_MAX=1" in unit["Environment"]


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)
def test_systemd_accepts_the_unit(tmp_path):
    unit = files(make(tmp_path, "systemd"), "systemd")["levywalk-node@.service"]
    path = tmp_path / "levywalk-node@.service"
    path.write_text(unit.replace("/usr/local/bin/levywalk", "/bin/true"))  # a program that is there

    def verify():
        return subprocess.run(
            ["systemd-analyze", "verify", str(path)], capture_output=True, text=True, check=False
        )

    done = verify()
    if "Failed to" in done.stderr and "bus" in done.stderr:
        pytest.skip("systemd-analyze does not work here")
    assert (done.returncode, done.stderr) == (0, "")
    path.write_text(path.read_text().replace("ProtectSystem=strict", "ProtectSystem=strictly"))
    assert "strictly" in verify().stderr  # it does look


# compose


def test_compose_has_a_service_and_a_volume_for_each_node(tmp_path):
    folder = make(tmp_path, "compose")
    made = yaml.safe_load((folder / "compose.yaml").read_text())
    assert made["name"] == "levywalk-four"
    names = {f"node-{v}" for v in range(N)}
    assert set(made["services"]) == set(made["volumes"]) == names
    for v in range(N):
        service, node = made["services"][f"node-{v}"], node_of(folder, v)
        assert service["volumes"] == [f"./node-{v}:/etc/levywalk:ro", f"node-{v}:{node.state}"]
        assert service["command"] == ["levywalk", "node", "/etc/levywalk/node.toml"]
        assert service["restart"] == "unless-stopped"
        assert service["read_only"] is True
        assert service["user"] == f"{USER}:{USER}"
        assert service["environment"]["MALLOC_ARENA_MAX"] == "1"
        assert set(service["networks"]) == set(made["networks"])
        assert str(host_port(node.listen)[1]) in service["healthcheck"]["test"][-1]
        compile(service["healthcheck"]["test"][-1], "healthcheck", "exec")
        for peer in node.neighbours:
            host, port = host_port(peer.address)
            assert host == f"node-{peer.id}"
            assert host in made["services"]
            assert port == host_port(node_of(folder, peer.id).listen)[1]


def test_docker_accepts_the_compose_file(tmp_path):
    if shutil.which("docker") is None:
        pytest.skip("docker is not installed")
    probe = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip("docker compose is not installed")
    folder = make(tmp_path, "compose")
    command = ["docker", "compose", "-f", str(folder / "compose.yaml"), "config", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("kind", deploy.OWN_ADDRESSES)
def test_no_key_gets_into_an_image(kind, tmp_path):
    made = files(make(tmp_path, kind), kind)
    assert made[".dockerignore"].split() == ["*", "!levywalk-*.whl"]
    copied = [
        line.split()[1] for line in made["Dockerfile"].splitlines() if line.startswith("COPY")
    ]
    assert copied == ["levywalk-*.whl"]
    assert f"USER {USER}" in made["Dockerfile"]


# Kubernetes


def objects(text):
    made = {}
    for entry in yaml.safe_load_all(text):
        made.setdefault(entry["kind"], []).append(entry)
    return made


def test_kubernetes_has_a_set_a_volume_and_a_secret_for_each_node(tmp_path):
    folder = make(tmp_path, "kubernetes")
    made = objects((folder / "kubernetes.yaml").read_text())
    (service,), sets = made["Service"], made["StatefulSet"]
    (budget,) = made["PodDisruptionBudget"]
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert budget["spec"]["maxUnavailable"] == 1
    assert len(sets) == N
    secrets = {
        entry["name"]: entry["files"]
        for entry in yaml.safe_load((folder / "kustomization.yaml").read_text())["secretGenerator"]
    }
    for v, entry in enumerate(sets):
        node, spec = node_of(folder, v), entry["spec"]
        pod = spec["template"]["spec"]
        labels = spec["template"]["metadata"]["labels"]
        for selector in (
            spec["selector"]["matchLabels"],
            service["spec"]["selector"],
            budget["spec"]["selector"]["matchLabels"],
        ):
            assert selector.items() <= labels.items()
        assert labels["levywalk/node"] == str(v)  # so that no set takes another's pod
        assert "levywalk/node" in spec["selector"]["matchLabels"]
        assert (spec["replicas"], spec["serviceName"]) == (1, service["metadata"]["name"])

        (container,) = pod["containers"]
        (port,) = container["ports"]
        assert (
            port["containerPort"]
            == host_port(node.listen)[1]
            == service["spec"]["ports"][0]["port"]
        )
        for probe in ("readinessProbe", "livenessProbe"):
            assert container[probe]["tcpSocket"]["port"] == port["name"]
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        (claim,) = spec["volumeClaimTemplates"]
        assert mounts == {"config": "/etc/levywalk", claim["metadata"]["name"]: str(node.state)}
        assert container["command"] == ["levywalk", "node", "/etc/levywalk/node.toml"]

        (init,) = pod["initContainers"]
        own = [
            f"node-{v}/{name}"
            for name in sorted(path.name for path in (folder / f"node-{v}").iterdir())
        ]
        (secret,) = [
            volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume
        ]
        assert sorted(secrets[secret]) == own  # all of its own, and nothing of another's
        copied = [f"/secret/{name.partition('/')[2]}" for name in secrets[secret]]
        assert init["command"] == ["install", "-m", "600", "-t", "/etc/levywalk", *copied]
        for one in (init, container):
            assert one["securityContext"]["readOnlyRootFilesystem"] is True
        assert pod["securityContext"]["runAsUser"] == pod["securityContext"]["fsGroup"] == USER
        assert pod["automountServiceAccountToken"] is False
    names = {f"{entry['metadata']['name']}-0.{entry['spec']['serviceName']}" for entry in sets}
    assert {
        host_port(peer.address)[0] for v in range(N) for peer in node_of(folder, v).neighbours
    } == names


def test_the_copied_key_is_one_that_a_node_accepts(tmp_path):
    if shutil.which("install") is None:
        pytest.skip("install is not installed")
    folder = make(tmp_path, "kubernetes")
    (folder / "node-1" / "node.key").chmod(0o640)  # as a secret with fsGroup is
    with pytest.raises(ValueError, match="other users may read"):
        Identity.open(folder / "node-1")
    entry = objects((folder / "kubernetes.yaml").read_text())["StatefulSet"][1]
    (init,) = entry["spec"]["template"]["spec"]["initContainers"]
    config = tmp_path / "config"
    config.mkdir()
    places = {"/secret/": f"{folder}/node-1/", "/etc/levywalk": str(config)}
    command = init["command"]
    for old, new in places.items():
        command = [word.replace(old, new) for word in command]
    subprocess.run(command, check=True)
    node = NodeFile.read(config / "node.toml")
    assert Identity.load(node.key, node.certificate, node.authority, node=1).node == 1
    assert Manifest.read(node.manifest).nodes == N


def test_kustomize_makes_the_secrets(tmp_path):
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    folder = make(tmp_path, "kubernetes")
    done = subprocess.run(
        ["kubectl", "kustomize", str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    made = objects(done.stdout)
    assert {kind: len(entries) for kind, entries in made.items()} == {
        "Secret": N,
        "Service": 1,
        "PodDisruptionBudget": 1,
        "StatefulSet": N,
    }
    used = {
        volume["secret"]["secretName"]
        for entry in made["StatefulSet"]
        for volume in entry["spec"]["template"]["spec"]["volumes"]
        if "secret" in volume
    }
    assert {entry["metadata"]["name"] for entry in made["Secret"]} == used


def test_data_that_is_too_large_for_a_secret_is_refused_with_the_remedy(tmp_path):
    with pytest.raises(InvalidParameter, match=r"data = '/var/lib/levywalk/data\.npz'"):
        make(tmp_path, "kubernetes", lw.homogeneous(N, dim=130_000))
    assert list(tmp_path.iterdir()) == []
    folder = make(tmp_path, "compose", lw.homogeneous(N, dim=130_000))  # which has no such limit
    assert (folder / "compose.yaml").exists()


def test_data_on_the_volume_or_with_its_owner(tmp_path):
    folder = make(tmp_path, "kubernetes", PrivateProblem(N, 10, 1.0))
    assert "node-0/data.csv" in files(folder, "kubernetes")["kustomization.yaml"]  # to be put there
    path = folder / "node-0" / "node.toml"
    path.write_text(path.read_text().replace('"data.csv"', '"/var/lib/levywalk/data.csv"'))
    made = files(folder, "kubernetes")
    assert "node-0/data.csv" not in made["kustomization.yaml"]
    assert made["kubernetes.yaml"].count("/secret/data.csv") == N - 1
