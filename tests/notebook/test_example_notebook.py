"""The notebook of examples/, run in a real kernel: what it shows is what a user sees."""

from __future__ import annotations

import base64
import io
import json
import os
import re
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
from matplotlib import image
from nbclient import NotebookClient

from tests.shared import shared_folder

EXAMPLE = Path(__file__).parents[2] / "examples" / "first_comparison.ipynb"
PROGRESS = """
from levywalk.notebook import LiveBar
from levywalk.progress import Bar
LiveBar.every = 0.0
with Bar("walking MHLJ", 4, patience=0.0) as bar:
    bar.advance(1)
    bar.advance(2)
"""


class Watching(NotebookClient):
    """A client that also notes every message about an output that is updated."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.updates: list[dict[str, str]] = []

    def process_message(self, msg: dict[str, Any], *rest: Any) -> Any:
        if msg["msg_type"] in ("display_data", "update_display_data"):
            self.updates.append(dict(msg["content"]["data"]))
        return super().process_message(msg, *rest)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Any], list[dict[str, str]]]:
    """The cells of the notebook and one about progress, with their outputs, and all updates."""
    with shared_folder(tmp_path_factory, "notebook") as folder:
        done, updates = folder / "done.ipynb", folder / "updates.json"
        if not updates.exists():
            notebook = nbformat.read(EXAMPLE, as_version=4)
            notebook.cells.append(nbformat.v4.new_code_cell(PROGRESS))
            env = os.environ | {"IPYTHONDIR": str(folder), "JUPYTER_RUNTIME_DIR": str(folder)}
            client = Watching(notebook, timeout=600, kernel_name="python3")
            client.execute(cwd=str(folder), env=env)
            nbformat.write(notebook, done)
            updates.write_text(json.dumps(client.updates))
        return nbformat.read(done, as_version=4).cells, json.loads(updates.read_text())


def outputs(ran: tuple[list[Any], Any], begins: str) -> list[Any]:
    (cell,) = (cell for cell in ran[0] if cell.source.strip().startswith(begins))
    return list(cell.outputs)


def only(ran: tuple[list[Any], Any], begins: str, kind: str) -> str:
    found = [out.data[kind] for out in outputs(ran, begins) if kind in out.get("data", {})]
    (content,) = (each for each in found if each)
    return str(content)


def picture(ran: tuple[list[Any], Any], begins: str) -> Any:
    raw = base64.b64decode(only(ran, begins, "image/png"))
    return image.imread(io.BytesIO(raw), format="png")[..., :3]


def test_the_notebook_is_stored_without_outputs() -> None:
    notebook = nbformat.read(EXAMPLE, as_version=4)
    nbformat.validate(notebook)
    assert all(not cell.get("outputs") for cell in notebook.cells)


# A kernel of its own loads all libraries and compiles what only the notebook's data need.
in_a_kernel = pytest.mark.more


@in_a_kernel
def test_nothing_is_complained_about(ran: tuple[list[Any], Any]) -> None:
    said = [
        out.text
        for cell in ran[0]
        for out in cell.get("outputs", [])
        if out.output_type == "stream" and out.name == "stderr"
    ]
    assert [text for text in said if "Compiling, once per machine" not in text] == []


@in_a_kernel
@pytest.mark.parametrize(
    ("begins", "texts"),
    [
        ("towns =", ["16", "Oslo, Drammen", "connected"]),
        ("data =", ["48", "income", "town"]),
        ("problem =", ["LeastSquares", "48"]),
        ("trap =", ["node 8 (&#x27;Moss&#x27;)", "steps per visit"]),
        ("lw.predict", ["Predicted cost to 5 %", "trusted"]),
        ("trace =", ["Trace of MHLJ", "8 (&#x27;Moss&#x27;)"]),
        ("designs =", ["WeightRW", "8 (&#x27;Moss&#x27;)", "steps to 5 %", "tuned to 5 %"]),
        ("result.table()", ["Moss", "busiest_name"]),
    ],
)
def test_results_are_tables(ran: tuple[list[Any], Any], begins: str, texts: list[str]) -> None:
    html = only(ran, begins, "text/html")
    for text in texts:
        assert text in html


@in_a_kernel
@pytest.mark.parametrize("begins", ["lw.plot(trace)", "lw.plot(result)", "figure,"])
def test_figures_appear_with_curves_in_colour(ran: tuple[list[Any], Any], begins: str) -> None:
    pixels = picture(ran, begins)
    assert pixels.shape[1] > 800
    blue = np.abs(pixels - np.array([0.0, 0x72 / 255, 0xB2 / 255])).max(axis=-1) < 0.1
    assert blue.mean() > 2e-4  # the first curve
    assert blue.any(axis=0).mean() > 0.25  # it runs through the panels


@in_a_kernel
def test_progress_is_the_notebooks(ran: tuple[list[Any], list[dict[str, str]]]) -> None:
    _, updates = ran
    ours = [each["text/html"] for each in updates if "<progress" in each.get("text/html", "")]
    shares = [float(re.findall(r'value="([\d.]+)"', html)[0]) for html in ours]
    assert shares[-2:] == [0.25, 0.75]
    (left,) = outputs(ran, "from levywalk.notebook")
    assert left.data["text/html"] == ""  # and it is gone at the end
