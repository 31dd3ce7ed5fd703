"""An index out of range raises in every way of reading what depends on it, and nowhere else."""

import copy
import pickle

import numpy as np
import pytest

import landfall as lf
from landfall._landfall import _samples

torch = pytest.importorskip("torch")
import landfall.torch as lt  # noqa: E402

from test_ops import random, results  # noqa: E402

# Far beyond the sizes of all samples.
BEYOND = 1_000_000


def fails(call):
    with pytest.raises(lf.IndexOutOfRangeError, match="index .* at position"):
        call()


def calls():
    """Each op of the table with each argument of indices out of range: name, keywords, sound arguments, broken ones."""
    for name in lf.ops.__all__:
        rng = np.random.default_rng(list(name.encode()))
        seen = set()
        for keywords, specs, refused in _samples(name):
            if refused is not None:
                continue
            args = [lf.tensor(random(spec, rng), dtype=spec[0]) for spec in specs]
            for i, arg in enumerate(args):
                # One sample of each dtype and argument.
                of = (i, args[0].dtype, arg.dtype)
                if arg.dtype not in ("int32", "int64") or of in seen or sum(a.size for a in args) > 100_000:
                    continue
                broken = [lf.tensor(np.full(a.shape, BEYOND), dtype=a.dtype) if a is arg else a for a in args]
                try:
                    got = results(getattr(lf.ops, name)(*[a.copy() for a in broken], **keywords))
                    got[0].tolist()
                except lf.IndexOutOfRangeError:
                    seen.add(of)
                    yield name, keywords, args, broken


CALLS = list(calls())
NAMES = [f"{name}-{i}-{args[0].dtype}" for i, (name, _, args, _) in enumerate(CALLS)]

each_call = pytest.mark.parametrize("name,keywords,args,broken", CALLS, ids=NAMES)

# Each way in which the elements of a tensor become something else.
READS = {
    "numpy": lambda t: t.numpy(),
    "asarray": np.asarray,
    "numpy of a list": lambda t: np.array([t]),
    "torch.as_tensor": torch.as_tensor,
    "array of another dtype": lambda t: np.array(t, dtype="f8", copy=True),
    "numpy.from_dlpack": np.from_dlpack,
    "torch.from_dlpack": torch.from_dlpack,
    "dlpack as a copy": lambda t: t.__dlpack__(max_version=(1, 0), copy=True),
    "tolist": lambda t: t.tolist(),
    "repr": repr,
    "str": str,
    "format": lambda t: f"{t}",
    "one element": lambda t: t.reshape(-1)[0].item(),
    "float": lambda t: float(t.reshape(-1)[0]),
    "int": lambda t: int(t.reshape(-1)[0]),
    "bool": lambda t: bool(t.reshape(-1)[0]),
    "iteration": lambda t: [x.tolist() for x in t.reshape(-1)],
    "pickle": pickle.dumps,
    "deepcopy": copy.deepcopy,
    "landfall.tensor": lambda t: lf.tensor(t).tolist(),
    "landfall.from_dlpack": lambda t: lf.from_dlpack(t).tolist(),
    "landfall.from_dlpack, copied": lambda t: lf.from_dlpack(t, copy=True).numpy(),
    "a copy": lambda t: t.copy().numpy(),
    "a copy's copy": lambda t: t.copy().copy().numpy(),
    "contiguous": lambda t: t.T.contiguous().numpy(),
    "astype": lambda t: t.astype("float64").numpy(),
    "another op": lambda t: (t == t).numpy(),
    "an op with out": lambda t: lf.ops.copy(t, out=np.empty(t.shape, dtype=t.dtype)),
    "an op with out of torch": lambda t: lf.ops.copy(t, out=torch.empty(t.shape, dtype=getattr(torch, t.dtype))),
    "a program": lambda t: lf.compile(lambda x: x.copy(), t)(t).numpy(),
    "assignment": lambda t: assigned(t).numpy(),
}


def assigned(t):
    other = lf.zeros(t.shape, t.dtype)
    other[...] = t
    return other


def test_the_table_has_ops_that_take_indices():
    assert {"gather", "scatter_add", "cross_entropy", "assign_rows", "accumulate", "window_gather", "permute"} <= {
        name for name, *_ in CALLS
    }


@each_call
def test_every_way_of_reading_a_result(name, keywords, args, broken):
    for result in results(getattr(lf.ops, name)(*[a.copy() for a in broken], **keywords)):
        if result.size == 0:
            continue
        for way, read in READS.items():
            if result.dtype == "bfloat16" and way in ("numpy.from_dlpack", "an op with out"):
                continue
            try:
                read(result)
            except lf.IndexOutOfRangeError as error:
                assert f"{name}: index" in str(error), way
            else:
                raise AssertionError(f"{way}: silent")
    # What it read is sound.
    for arg in args:
        arg.tolist()


@each_call
def test_destinations(name, keywords, args, broken):
    op = getattr(lf.ops, name)
    sound = results(op(*[a.copy() for a in args], **keywords))
    for make in (
        lambda r: np.empty(r.shape, dtype=r.dtype),
        lambda r: torch.empty(r.shape, dtype=getattr(torch, r.dtype)),
        handed_out,
    ):
        if any(r.dtype == "bfloat16" for r in sound) and make is not handed_out:
            continue
        out = tuple(make(r) for r in sound)
        given = [a.copy() for a in broken]
        # An op that updates an argument has it as the destination.
        try:
            op(*[a.copy() for a in args], **keywords, out=out)
        except lf.AliasError:
            given = [numpy(a) if a.dtype != "bfloat16" else a for a in given]
            fails(lambda: [np.asarray(r) for r in results(op(*given, **keywords))])
            continue
        fails(lambda: op(*given, **keywords, out=out))
        op(*[a.copy() for a in args], **keywords, out=out)


def handed_out(like):
    tensor = lf.zeros(like.shape, like.dtype)
    torch.from_dlpack(tensor)
    return tensor


def numpy(tensor):
    return np.array(tensor.numpy(), copy=True)


@each_call
def test_programs(name, keywords, args, broken):
    def function(*values):
        return tuple(results(getattr(lf.ops, name)(*values, **keywords)))

    try:
        program = lf.compile(function, *args)
    except lf.Error as error:
        # A traced function does not update its arguments.
        assert results(getattr(lf.ops, name)(*[a.copy() for a in args], **keywords)), error
        pytest.skip(f"not in a traced function: {error}")
    for result in program(*broken):
        if result.size:
            fails(result.numpy)
            fails(result.tolist)
            fails(result.copy().numpy)
    if not any(dtype == "bfloat16" for dtype, _ in program.outputs.values()):
        for make in (np.empty, lambda shape, dtype: torch.empty(shape, dtype=getattr(torch, dtype))):
            out = tuple(make(shape, dtype=dtype) for dtype, shape in program.outputs.values())
            fails(lambda: program(*broken, out=out))
            program(*args, out=out)
    # In place, and in memory that was handed out.
    for result in program(*args):
        result.tolist()
    for output in program.outputs:
        program.memory(output).tolist()
    fails(lambda: [program(*broken), *(program.memory(output).tolist() for output in program.outputs)])


def test_a_torch_op_raises():
    def embedding(table, index):
        return table.embedding(index) * 2.0

    table, index = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True), torch.tensor([1, 0])
    op = lt.op("landfall_tests::embedding_faults", embedding, table.detach(), index)
    for bad in (7, 2, -1):
        fails(lambda: op(table, torch.tensor([0, bad])))
        fails(lambda: op(table.detach(), torch.tensor([0, bad])))
    torch.testing.assert_close(op(table, index), 2 * table[index])


def test_a_program_that_runs_in_place():
    table, index, out = np.eye(3, dtype="f4"), np.array([0, 1]), np.zeros((2, 3), "f4")
    program = lf.compile(lambda table, index: table.embedding(index), table, index)
    program.bind(table=table, index=index, out=out)
    program.run()
    np.testing.assert_array_equal(out, table[:2])
    index[1] = 3
    fails(program.run)
    fails(program.run)
    index[1] = 2
    program.run()
    np.testing.assert_array_equal(out, table[[0, 2]])


def test_what_does_not_depend_on_it_is_sound():
    x = lf.tensor(np.arange(6, dtype="f4").reshape(3, 2))
    wrong = lf.ops.gather(x, np.array([0, 3]), axis=0)
    fails(wrong.numpy)
    fails((wrong + x[:2]).numpy)
    np.testing.assert_array_equal((x + 1).numpy(), x.numpy() + 1)
    # The other rows and columns of the memory.
    table = lf.zeros((4, 3), "float32")
    lf.ops.gather(x, np.array([3, 0]), axis=0, out=table[1:3, 1:])
    for part in (table[0], table[3], table[:, 0], table[3:, 1:]):
        assert not part.numpy().any()
    for part in (table, table[1], table[:, 1], table[2, 2]):
        fails(part.tolist)
    table[1:3, 2] = 5.0
    np.testing.assert_array_equal(table[:, 2].numpy(), [0, 5, 5, 0])
    fails(table.numpy)
    table[...] = 1.0
    assert table.numpy().all()


def test_it_ends_with_the_memory():
    x = lf.tensor(np.arange(3, dtype="f4"))
    for _ in range(20):
        wrong = lf.ops.gather(x, np.array([3]), axis=0)
        fails((wrong * 2).item)
        del wrong
        assert [lf.zeros(1, "float32").item() for _ in range(20)] == [0] * 20
        assert np.array_equal(lf.ops.gather(x, np.array([2]), axis=0).numpy(), [2])
    lf.synchronize()


def test_a_step_of_a_training_raises():
    data = {"index": np.array([0, 1, 5, 2]), "y": np.zeros(4, "f4")}
    trainer = lf.Trainer(
        lambda batch, params: ((params["table"].embedding(batch["index"]).reshape(4) - batch["y"]) ** 2.0).mean(),
        {"table": np.ones((3, 1), "f4")},
        data,
        batch=4,
        max_steps=4,
    )
    trainer.step(2)
    fails(lambda: trainer.records(1, 2))
    fails(trainer.state_dict)
