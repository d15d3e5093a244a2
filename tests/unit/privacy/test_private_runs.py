"""Private runs against plain numpy, their budgets, that they resume bit by bit, and refusals."""

from __future__ import annotations

import numpy as np
import pytest

import levywalk as lw
from levywalk.draws import Domain, Key
from levywalk.privacy import SeededNoise, noise_keys

N, DIM = 6, 3
NETWORK = lw.ring(N)
RNG = np.random.default_rng(2)
FEATURES, TARGETS = RNG.normal(size=(3 * N, DIM)), RNG.normal(size=3 * N)
PROBLEM = lw.LeastSquares(FEATURES, TARGETS, node=np.repeat(np.arange(N), 3), ridge=0.1)
PRIVACY = lw.Privacy(clip=0.5, noise=3.0)


def run(update=None, privacy=PRIVACY, design=None, steps=60, **options):
    given = {"step_size": 0.05, "seed": 4, "record_walk": True} | options
    return lw.run(
        NETWORK,
        PROBLEM,
        design or lw.unif_rw(),
        steps=steps,
        update=update,
        privacy=privacy,
        **given,
    )


def releases(walk, weights=None, privacy=PRIVACY, seed=4):
    """A function (t, v, x) → w(v) times the noisy clipped gradient, in plain loops."""
    row = noise_keys(seed, Domain.WALK, range(1))[0]
    key = Key(int(row[0]), int(row[1]))

    def release(t, v, x):
        w = 1.0 if weights is None else weights[v]
        total = np.zeros(DIM)
        for i in range(3 * v, 3 * v + 3):
            part = w * 2.0 * (FEATURES[i] @ x - TARGETS[i]) * FEATURES[i]
            total += part * min(1.0, privacy.clip / np.linalg.norm(part))
        spread = privacy.noise * 2.0 * privacy.clip / 3.0
        return total / 3.0 + spread * SeededNoise(key, t)(0, DIM) + w * 0.1 * x

    return release


@pytest.mark.parametrize("backend", ["reference", "kernel"])
def test_private_sgd_is_the_plain_loop(backend):
    trace = run(backend=backend)
    release, x = releases(trace.walk[0]), np.zeros(DIM)
    for t, v in enumerate(trace.walk[0]):
        x = x - 0.05 * release(t, v, x)
    assert trace.model[0] == pytest.approx(x, rel=1e-10)
    assert trace.provenance["backend"] == backend
    assert "backend" not in trace.provenance["privacy"]


def test_weights_come_before_the_clip():
    public = lw.Privacy(clip=0.5, noise=3.0, scores="public")
    trace = run(design=lw.weight_rw(), privacy=public)
    weights = PROBLEM.smoothness.mean() / PROBLEM.smoothness
    release, x = releases(trace.walk[0], weights), np.zeros(DIM)
    for t, v in enumerate(trace.walk[0]):
        x = x - 0.05 * release(t, v, x)
    assert trace.model[0] == pytest.approx(x, rel=1e-10)


@pytest.mark.parametrize("update", [lw.sag(), lw.saga()])
def test_the_gradients_that_are_remembered_and_sent_are_the_noisy_ones(update):
    trace = run(update, record_memory=True)
    release, x = releases(trace.walk[0]), np.zeros(DIM)
    table = np.zeros((N, DIM))
    for t, v in enumerate(trace.walk[0]):
        fresh = release(t, v, x)
        mean = table.mean(axis=0)
        if update.name == "saga":
            x = x - 0.05 * (fresh - table[v] + mean)
            table[v] = fresh
        else:
            table[v] = fresh
            x = x - 0.05 * table.mean(axis=0)
    assert trace.model[0] == pytest.approx(x, rel=1e-9)
    assert trace.memory["update.sum"][0] == pytest.approx(table.sum(axis=0), rel=1e-9)
    assert trace.memory["update.gradient"][0].ravel() == pytest.approx(table.ravel(), rel=1e-9)


@pytest.mark.parametrize(
    "update",
    [lw.heavy_ball(), lw.adam(), lw.sgd(minibatch=2), lw.saga(minibatch=2), lw.averaged(lw.sag())],
)
def test_other_updates_get_noise_as_well(update):
    noisy, other = run(update), run(update, seed=5)
    assert np.isfinite(noisy.model).all()
    assert not np.allclose(noisy.model, other.model)
    plain = run(update, privacy=None, backend="reference")
    assert not np.allclose(noisy.model, plain.model, rtol=1e-3)
    if not update.node_memory:  # a table of whole gradients is another algorithm
        quiet = run(update, privacy=lw.Privacy(clip=1e9, noise=1e-15))
        assert quiet.model == pytest.approx(plain.model, rel=1e-4, abs=1e-4)


def test_the_walk_is_that_of_a_run_without_privacy():
    assert (run().walk == run(privacy=None, backend="reference").walk).all()


@pytest.mark.parametrize("backend", ["reference", "kernel"])
def test_a_node_whose_budget_is_spent_passes_the_model_on_as_it_is(backend):
    privacy = lw.Privacy.calibrated(clip=0.5, budget=1.0, updates=4)
    trace = run(privacy=privacy, steps=100, record_every=1, record_memory=True, backend=backend)
    walk, counted = trace.walk[0], np.zeros(N, int)
    release, x = releases(walk, privacy=privacy), np.zeros(DIM)
    for t, v in enumerate(walk):
        counted[v] += 1
        if counted[v] <= 4:
            x = x - 0.05 * release(t, v, x)
    assert trace.model[0] == pytest.approx(x, rel=1e-9)
    assert trace.memory["privacy.releases"][0].tolist() == np.minimum(counted, 4).tolist()
    said = trace.provenance["privacy"]
    assert said["updates_at_cap"] == 4
    assert said["epsilon_at_cap"] <= 1.0 + 1e-12
    assert said["epsilon_spent"] == said["epsilon_at_cap"]
    assert said["nodes_out_of_budget"] == int((counted >= 4).sum())
    assert said["updates_made"] == int(np.minimum(counted, 4).sum())
    assert "protects nobody" in said["simulated"]


def test_epsilon_spent_is_that_of_the_realised_counts():
    said = run().provenance["privacy"]
    visits = run().visits[0]
    expected = [PRIVACY.epsilon(int(count)) for count in visits]
    assert said["epsilon_spent_by_node"] == pytest.approx(expected, rel=1e-5)
    assert said["epsilon_at_cap"] == pytest.approx(PRIVACY.epsilon(60))
    assert said["accountant"] == "composition"
    assert "one sample of one node" in said["definition"]


def test_a_switching_walk_counts_the_cap_and_not_the_visits():
    public = lw.Privacy(clip=0.5, noise=3.0, scores="public")
    design = lw.switching(lw.mhlj(), lw.unif_rw())
    said = run(design=design, privacy=public).provenance["privacy"]
    assert said["epsilon_spent"] == said["epsilon_at_cap"]
    assert "must not be used" in said["because"]


def test_an_update_that_asks_twice_pays_twice_and_stops_at_the_budget():
    class Twice(lw.Update):
        name = "twice"

        def direction(self, model, memory, local, weight, words):
            return local.gradient(model) + local.gradient(model + 1.0)

    trace = run(Twice(), privacy=lw.Privacy.calibrated(clip=0.5, budget=1.0, updates=5), steps=300)
    assert trace.provenance["privacy"]["updates_made"] == N * 5
    frozen = run(Twice(), privacy=lw.Privacy.calibrated(clip=0.5, budget=1.0, updates=1), steps=9)
    assert (frozen.model == 0.0).all()  # one release of two would not be allowed


def test_tokens_share_a_nodes_budget():
    privacy = lw.Privacy.calibrated(clip=0.5, budget=1.0, updates=7)
    trace = run(privacy=privacy, tokens=3, steps=200, record_walk=False)
    assert trace.provenance["privacy"]["updates_at_cap"] == 6
    assert trace.provenance["privacy"]["updates_made"] == 6 * N
    with pytest.raises(lw.InvalidParameter, match="fewer than one for each of the 3 tokens"):
        run(
            privacy=lw.Privacy.calibrated(clip=0.5, budget=1.0, updates=2),
            tokens=3,
            record_walk=False,
        )


def test_replicas_do_not_depend_on_each_other():
    four = run(replicas=4)
    assert (four.model[:2] == run(replicas=2).model).all()
    assert len({tuple(model) for model in four.model}) == 4


@pytest.mark.parametrize("update", [lw.sgd(), lw.saga()])  # compiled, and not
def test_a_private_run_resumes_bit_by_bit(update, tmp_path):
    def stop(seen):
        if seen["step"] == 30:
            raise RuntimeError("enough")

    privacy = lw.Privacy.calibrated(clip=0.5, budget=1.0, updates=8)
    options = {"privacy": privacy, "record_every": 10, "replicas": 2}
    whole = run(update, callbacks=[print], **options)
    file = tmp_path / "state.npz"
    with pytest.raises(lw.CallbackError):
        run(update, callbacks=[stop], resume=file, **options)
    again = run(update, callbacks=[print], resume=file, **options)
    assert again.provenance["resumed_at"] == [30]
    assert (again.model == whole.model).all()
    assert again.provenance["privacy"] == whole.provenance["privacy"]
    with pytest.raises(lw.ResumeError, match="privacy"):
        run(update, callbacks=[print], resume=file, **(options | {"privacy": PRIVACY}))


def test_a_state_with_more_updates_than_the_budget_is_refused(tmp_path):
    import zipfile

    file, privacy = tmp_path / "state.npz", lw.Privacy.calibrated(clip=0.5, budget=1.0, updates=8)
    run(privacy=privacy, resume=file)
    content = dict(np.load(file))
    content["state.node_memory.privacy.releases"][0, 0] = 9
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in content.items():
            with archive.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, array)
    with pytest.raises(lw.ResumeError, match="more updates than its budget allows"):
        run(privacy=privacy, resume=file)


@pytest.mark.parametrize(
    "update",
    [lw.newton_token(), lw.point_saga(), lw.finito(), lw.walkman(), lw.averaged(lw.point_saga())],
)
def test_updates_that_reveal_more_are_refused_by_name(update):
    with pytest.raises(lw.InvalidParameter, match=f"update {update.name} is refused under privacy"):
        run(update)


@pytest.mark.parametrize(
    "design", [lw.mhlj(), lw.weight_rw(), lw.mixed_rw(0.5), lw.mhda("importance")]
)
def test_weighted_designs_need_scores_that_are_public_or_released(design, reference_only):
    with pytest.raises(lw.InvalidParameter) as error:
        run(design=design)
    assert str(error.value).startswith(f"design {design.name} depends on the nodes' scores")
    for scores in (
        {"scores": "public"},
        {"scores": "released", "score_low": 1.0, "score_high": 20.0, "score_noise": 2.0},
    ):
        privacy = lw.Privacy(clip=0.5, noise=3.0, **scores)
        assert np.isfinite(run(design=design, privacy=privacy).model).all()


def test_released_scores_are_what_the_walk_uses_and_cost_what_they_say():
    privacy = lw.Privacy(
        clip=0.5, noise=3.0, scores="released", score_low=1.0, score_high=20.0, score_noise=2.0
    )
    trace, other = (
        run(design=lw.weight_rw(), privacy=privacy),
        run(design=lw.weight_rw(), privacy=privacy, seed=9),
    )
    exact = PROBLEM.smoothness / PROBLEM.smoothness.sum()
    assert not np.allclose(trace.target, exact)
    assert not np.allclose(trace.target, other.target)
    said = trace.provenance["privacy"]
    assert said["epsilon_spent"] == pytest.approx(privacy.epsilon(int(trace.visits.max())))
    assert min(said["epsilon_spent_by_node"]) >= privacy.epsilon(0) * (1 - 1e-5)


def test_a_step_size_from_the_data_is_refused():
    with pytest.raises(lw.InvalidParameter, match="step_size = 'theory' depends on the largest"):
        run(step_size="theory")
    run(step_size="theory", privacy=lw.Privacy(clip=0.5, noise=3.0, scores="public"))


def test_compare_takes_privacy_and_says_that_tuning_is_not_counted():
    designs = {"UnifRW": lw.unif_rw(), "SAGA": (lw.unif_rw(), lw.saga())}
    options = {"steps": 40, "replicas": 2, "privacy": "clip=0.5,noise=3"}
    found = lw.compare(NETWORK, PROBLEM, designs, step_size=0.05, **options)
    for trace in found.traces.values():
        assert trace.provenance["privacy"]["clip"] == 0.5
    with pytest.warns(lw.DataWarning) as warned:
        lw.compare(NETWORK, PROBLEM, {"UnifRW": lw.unif_rw()}, **options)
    assert any("tuned on the data, and the ε of privacy" in str(w.message) for w in warned)
    with pytest.raises(lw.InvalidParameter, match="design MHLJ depends"):
        lw.compare(NETWORK, PROBLEM, {"MHLJ": lw.mhlj()}, step_size=0.05, **options)
    with pytest.raises(lw.InvalidParameter, match="step_size = 'theory' depends"):
        lw.compare(NETWORK, PROBLEM, designs, step_size="theory", **options)
