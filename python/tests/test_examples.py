"""The examples in Python reach what their pages say."""

import importlib.util
import pathlib

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "python"


def example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_beam_search_sorts():
    assert example("sorting").main() > 0.95


def test_the_mixture_finds_all_branches():
    densities = example("mixture_density").main()
    assert densities[1] + 0.6 < densities[4] < densities["true"]
    assert densities["true"] - densities[4] < 0.15


def test_the_digits_are_those_that_were_asked_for():
    assert example("diffusion").main()[1] > 0.9


def test_a_gan_learns_the_ring():
    assert len((EXAMPLES / "wgan.py").read_text(encoding="utf-8").splitlines()) < 60
    distances = example("wgan").train(400)
    assert sum(distances[350:]) / 50 < 0.4 * distances[0]


def test_all_examples_have_a_test():
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    assert names == {"sorting", "mixture_density", "diffusion", "wgan"}
