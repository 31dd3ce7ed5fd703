"""Runs ONNX models and compares their outputs with what is expected: `onnx_round_trip.py CASES.json`.

Prints one JSON object: the largest error of each case's outputs, in multiples of the case's scale. Exit code 3, with a sentence,
where onnx or onnxruntime is absent.
"""

import json
import sys

try:
    import numpy as np
    import onnx
    import onnxruntime
except ImportError as why:
    print(why)
    sys.exit(3)


def errors(case):
    onnx.checker.check_model(case["model"], full_check=True)
    session = onnxruntime.InferenceSession(case["model"], providers=["CPUExecutionProvider"])
    types = {"tensor(double)": np.float64, "tensor(int64)": np.int64, "tensor(float)": np.float32}
    inputs = {i.name: np.array(case["inputs"][i.name], types[i.type]) for i in session.get_inputs()}
    names = [o.name for o in session.get_outputs()]
    assert sorted(names) == sorted(case["outputs"]), (names, list(case["outputs"]))
    worst = {}
    for name, output in zip(names, session.run(names, inputs)):
        if name == "parameters":
            # Mean and shape of a negative binomial distribution, whose quantiles are what the program forecasts.
            try:
                from scipy.stats import nbinom
            except ImportError:
                print("SKIPPED: quantiles of counts, because scipy is absent", file=sys.stderr)
                continue
            mean, shape = output[..., 0:1], output[..., 1:2]
            output = nbinom(shape, shape / (shape + mean)).ppf(np.array(case["levels"]))
        expected = np.array(case["outputs"][name])
        assert output.shape == expected.shape, (name, output.shape, expected.shape)
        scale = np.array(case["scale"])
        if name in ("quantiles", "parameters"):
            scale = scale[:, None]
        elif name == "intervals":
            scale = scale[:, None, None]
        worst[name] = float(np.max(np.abs(output - expected) / scale))
        # One at a time gives the same: the batch is free.
        for at in range(0 if name == "parameters" else len(output)):
            alone = session.run([name], {key: value[at : at + 1] for key, value in inputs.items()})[0]
            assert np.max(np.abs(alone[0] - output[at]) / scale) < 1e-5, (name, at)
    return worst


print(json.dumps({case["name"]: errors(case) for case in json.load(open(sys.argv[1]))}))
