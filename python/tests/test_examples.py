"""The examples in Python, as they stand."""

import importlib.util
import pathlib

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"


def test_a_gan_learns_the_ring():
    path = EXAMPLES / "wgan.py"
    assert len(path.read_text(encoding="utf-8").splitlines()) < 60
    spec = importlib.util.spec_from_file_location("wgan", path)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    distances = example.train(400)
    assert sum(distances[350:]) / 50 < 0.4 * distances[0]
