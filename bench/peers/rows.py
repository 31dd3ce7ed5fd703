"""Rows of the benchmark as the peers see them.

A step row is a whole training step, of a PatchTST, of the model that it names, or (where it has tokens) of a CrossAsset; its
sizes are here. An op row names
its sizes itself: `matmul/6400x64x192` is the op `matmul` on the sizes 6400, 64, 192; `large-` rows are timed in f32 and bf16, `half-`
rows in bf16. A routing row does so too: tokens, hidden
size, experts (or chunks), experts of a token, columns of an expert's matrix; `-zipf` is how its tokens choose their experts.
"""

STEPS = {
    "seed": dict(
        context=24, patch=8, stride=4, padding=False, d_model=64, heads=4, layers=2, d_ff=256,
        norm="layer", dropout=0.0, channels=20, batch=64, horizon=1,
    ),
    "etth1": dict(
        context=336, patch=16, stride=8, padding=True, d_model=16, heads=4, layers=3, d_ff=128,
        norm="batch", dropout=0.3, channels=7, batch=128, horizon=96,
    ),
    "wide": dict(
        context=336, patch=16, stride=8, padding=True, d_model=128, heads=16, layers=3, d_ff=256,
        norm="batch", dropout=0.2, channels=321, batch=32, horizon=96,
    ),
    "deep": dict(
        context=512, patch=16, stride=8, padding=True, d_model=512, heads=8, layers=6, d_ff=2048,
        norm="layer", dropout=0.0, channels=8, batch=64, horizon=96,
    ),
}
TIDE = dict(
    model="tide", context=720, d_model=512, d_decoder=32, d_temporal=16, dropout=0.5, channels=7, batch=32,
)
STEPS["tide"] = dict(TIDE, horizon=96)
STEPS["tide-720"] = dict(TIDE, horizon=720)
STEPS["tsmixer"] = dict(
    model="tsmixer", context=512, layers=6, d_ff=512, dropout=0.9, channels=7, batch=32, horizon=96,
)
CROSS_ASSET = dict(tokens=12, features=193, classes=3, d_model=256, heads=4, layers=2, d_ff=1024, batch=256)
STEPS["cross-asset"] = dict(CROSS_ASSET, micro_batches=1)
STEPS["cross-asset-1x256"] = dict(CROSS_ASSET, micro_batches=256)
SAMPLES = 16408

ROUTING = [
    "route-map", "route-map-i32", "permute", "permute-grad", "unpermute", "unpermute-grad", "chunk-map", "sort-chunks",
    "routing-copy", "grouped-matmul", "plain-matmul",
]

WINDOWS = 4096
LEARNING_RATE = 1e-3
WEIGHT_DECAY = 0.01
DROPOUT = 0.3


def patches(c):
    """Number of patches of one window."""
    return (c["context"] - c["patch"]) // c["stride"] + 1 + c["padding"]


def parse_op(row):
    """The op of a row and its sizes."""
    op, _, sizes = row.partition("/")
    return op, [int(n) for n in sizes.split("x")]


def is_routing(row):
    return parse_op(row)[0].removesuffix("-zipf") in ROUTING if "/" in row else False


def dtypes(row, asked):
    """Those of these dtypes that a row is timed in."""
    if row in STEPS:
        return asked
    if row.startswith("half-"):
        return ["bf16"]
    return [d for d in asked if d in ("f32", "bf16")] if is_routing(row) or row.startswith("large-") else ["f32"]
