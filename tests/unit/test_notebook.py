from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import levywalk as lw
from levywalk.notebook import LiveBar, in_notebook
from levywalk.progress import Bar


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What a notebook would be sent: this process becomes one."""
    sent: list[dict[str, Any]] = []

    def display(content: dict[str, str], **how: Any) -> None:
        sent.append(content | how)

    ipython, displays = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())  # type: ignore[attr-defined]
    displays.display = display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", displays)
    monkeypatch.setattr(LiveBar, "every", 0.0)
    return sent


def test_a_terminal_of_ipython_is_no_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not in_notebook()
    ipython = ModuleType("IPython")
    ipython.get_ipython = lambda: SimpleNamespace()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    assert not in_notebook()


def test_progress_is_one_output_that_is_updated_and_emptied(shown: list[dict[str, Any]]) -> None:
    with Bar("walking <MHLJ>", 4, patience=0.0) as bar:
        bar.advance(1)
        bar.advance(2)
    first, second, last = shown
    assert first["text/plain"].startswith("walking <MHLJ>: 25 %")
    assert "walking &lt;MHLJ&gt;" in first["text/html"]
    assert 'value="0.7500"' in second["text/html"]
    assert (last["text/html"], last["text/plain"]) == ("", "")
    assert {each["display_id"] for each in shown} == {first["display_id"]}
    assert [each["update"] for each in shown] == [False, True, True]


def test_nothing_is_shown_of_what_takes_no_time_or_is_not_asked_for(
    shown: list[dict[str, Any]],
) -> None:
    with Bar("walking", 4) as bar:
        bar.advance(4)
    with Bar("walking", 4, show=False, patience=0.0) as bar:
        bar.advance(4)
    assert shown == []


def test_runs_report_to_the_notebook(
    shown: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        Bar.__init__, "__kwdefaults__", Bar.__init__.__kwdefaults__ | {"patience": 0.0}
    )
    lw.run(lw.ring(9), lw.homogeneous(9, dim=2), lw.mhlj(), steps=50, step_size=0.01, threads=1)
    assert shown[0]["text/plain"].startswith("walking MHLJ")
    assert shown[-1]["text/html"] == ""


@pytest.mark.more
def test_every_result_has_a_table_for_notebooks() -> None:
    network, problem = lw.ring(20), lw.heterogeneous(20, important=1)
    given = {"steps": 40, "step_size": 0.001, "replicas": 2}
    designs = {"a<b": lw.mhlj(), "UnifRW": lw.unif_rw()}
    matrix = lw.transition(network, problem, lw.mhlj())
    results = [
        network,
        problem,
        lw.run(network, problem, lw.mhlj(), record_walk=True, **given),
        lw.compare(network, problem, designs, **given),
        lw.walk(network, lw.unif_rw(), steps=40),
        lw.gossip(network, problem, iterations=5),
        lw.entrapment(network, problem, lw.weight_rw()),
        lw.predict(network, problem, lw.mhlj()),
        lw.tune(network, problem, p_jumps=[0.1], p_distances=[0.5], max_hops=[3]),
        lw.stationary_report(matrix),
        lw.spectral_gap(matrix),
        lw.mixing_time(matrix),
        lw.bounds(network, problem, lw.mhlj(), steps=100, step_size=1e-4),
        lw.error_floor(network, problem, lw.mhlj(), step_size=1e-4),
        lw.assumptions(network, problem, lw.mhlj()),
    ]
    for result in results:
        html = result._repr_html_()
        assert html.startswith("<table>")
        assert html.count("<td") == html.count("</td>") > 0
        assert " object at 0x" not in html
        assert "array(" not in html
    assert "a&lt;b" in results[3]._repr_html_()  # no name is markup
