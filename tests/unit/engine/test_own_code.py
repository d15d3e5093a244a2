"""A run of a user's own method resumes only with the code with which it began."""

import importlib.util
import sys

import pytest

import levywalk as lw
from levywalk.engine.own_code import own_code

FILE = """
import levywalk as lw

STEP = {step}


class Scaled(lw.Update):
    name = "scaled"

    def direction(self, model, memory, local, weight, words):
        return scale() * local.gradient(model)


def scale():
    return STEP
"""


def loaded(path, step):
    """Return the class of the file, as `levywalk --load` makes it in a process."""
    path.write_text(FILE.format(step=step))
    spec = importlib.util.spec_from_file_location("own_method_of_a_test", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module.Scaled()


def test_a_changed_file_is_other_code_also_for_an_average_of_it(tmp_path):
    one = loaded(tmp_path / "own.py", 1.0)
    before = own_code(one), own_code(lw.averaged(one))
    assert before[0] is not None
    assert before == (own_code(one), own_code(lw.averaged(one)))
    other = loaded(tmp_path / "own.py", 2.0)
    after = own_code(other), own_code(lw.averaged(other))
    assert before[0] != after[0]
    assert before[1] != after[1]


def test_a_class_without_a_file_is_told_by_its_instructions():
    def made(source):
        room = {"lw": lw, "__name__": "__main__"}
        exec(source, room)  # as in an interactive session
        return room["Own"]()

    text = "class Own(lw.Sgd):\n def gradient(self, problem, v, x, word):\n  return {} * x\n"
    first, again, other = (own_code(made(text.format(n))) for n in ("2", "2", "3"))
    assert first == again != other


def test_a_run_does_not_resume_with_other_code(tmp_path):
    network, problem, state = lw.ring(6), lw.homogeneous(6, dim=2), tmp_path / "state.npz"

    def run(update, steps):
        return lw.run(
            network,
            problem,
            lw.unif_rw(),
            update=update,
            steps=steps,
            step_size=0.01,
            resume=state,
        )

    run(loaded(tmp_path / "own.py", 1.0), 40)
    assert run(loaded(tmp_path / "own.py", 1.0), 40).step[-1] == 40
    with pytest.raises(lw.ResumeError, match="different code of your own methods"):
        run(loaded(tmp_path / "own.py", 2.0), 40)
