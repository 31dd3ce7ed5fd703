"""What a permutation of a mixture of experts computes, in JAX's own ops."""

import functools

import jax
import jax.numpy as jnp


def order_of(chosen):
    """The pairs of `chosen [T, k]`, experts of tokens, in the order of their experts, and the place of each pair there."""
    flat = chosen.reshape(-1)
    order = jnp.argsort(flat, stable=True)
    return order, jnp.argsort(order)


def gathered_plainly(x, order, place, k):
    """Rows of tokens; JAX derives it, as a scatter."""
    return x[order // k]


def merged_plainly(rows, weights, order, place):
    """Sums of a token's rows; JAX derives it."""
    picked = rows[place].reshape(*weights.shape, -1).astype(jnp.float32)
    return (picked * weights[..., None]).sum(1).astype(rows.dtype)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def gathered(x, order, place, k):
    """The same with its gradient by hand, a gather by the other order."""
    return gathered_plainly(x, order, place, k)


def _rows_back(k, saved, cotangent):
    place = saved
    return cotangent[place].reshape(-1, k, cotangent.shape[1]).astype(jnp.float32).sum(1).astype(cotangent.dtype), None, None


gathered.defvjp(lambda x, order, place, k: (x[order // k], place), _rows_back)


@jax.custom_vjp
def merged(rows, weights, order, place):
    """The same with its gradients by hand."""
    return merged_plainly(rows, weights, order, place)


def _merged_back(saved, cotangent):
    rows, weights, order, place = saved
    k = weights.shape[1]
    wide = cotangent.astype(jnp.float32)
    of_weights = jnp.einsum("tkh,th->tk", rows[place].reshape(*weights.shape, -1).astype(jnp.float32), wide)
    of_rows = (wide[order // k] * weights.reshape(-1)[order][:, None]).astype(rows.dtype)
    return of_rows, of_weights, None, None


merged.defvjp(lambda *args: (merged(*args), args), _merged_back)
