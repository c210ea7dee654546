"""Products with kernels against float64 NumPy, and the form that they have on CPU."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from numjax.nn import dense, parallel

SHAPES = (((3,), (3, 5)), ((7, 3), (3, 2, 4)), ((2, 5, 3), (3, 4)), ((2, 5, 4, 3), (3, 3, 2, 2)), ((0, 5, 3), (3, 4)))


@pytest.mark.parametrize("platform", ["cpu", "gpu"])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_product_and_gradients_are_those_of_float64(shapes, platform, rng, monkeypatch):
    monkeypatch.setattr(parallel, "platform", lambda: platform)
    (x, kernel), axes = (rng.standard_normal(shape).astype(np.float32) for shape in shapes), "abcde"
    rows, columns = axes[: x.ndim - 1], "wxyz"[: kernel.ndim - 1]
    product, pull = jax.vjp(dense.project, x, kernel)
    expected = np.einsum(f"{rows}k,k{columns}->{rows}{columns}", *(a.astype(np.float64) for a in (x, kernel)))
    np.testing.assert_allclose(product, expected, rtol=1e-5, atol=1e-5)
    d = rng.standard_normal(product.shape).astype(np.float32)
    d_x, d_kernel = pull(d)
    wide, x, kernel = (a.astype(np.float64) for a in (d, x, kernel))
    np.testing.assert_allclose(d_x, np.einsum(f"{rows}{columns},k{columns}->{rows}k", wide, kernel), atol=1e-4)
    np.testing.assert_allclose(d_kernel, np.einsum(f"{rows}{columns},{rows}k->k{columns}", wide, x), atol=1e-4)


def test_on_cpu_a_kernels_gradient_is_a_product_of_two_matrices(rng):
    x, kernel = rng.standard_normal((2, 5, 3)), rng.standard_normal((3, 2, 4))
    jaxpr = jax.make_jaxpr(jax.grad(lambda *a: dense.project(*a).sum(), argnums=(0, 1)))(x, kernel)
    products = [equation for equation in jaxpr.eqns if equation.primitive.name == "dot_general"]
    assert len(products) == 3
    assert all(variable.aval.ndim == 2 for equation in products for variable in equation.invars)


def test_parts_are_those_of_an_axis_and_their_gradients_are_joined(rng):
    x = rng.standard_normal((2, 3, 4)).astype(np.float32)
    parts = dense.separate(x, axis=1)
    for i, part in enumerate(parts):
        np.testing.assert_array_equal(part, x[:, i])

    def weigh(x):
        return sum(i * part.sum() for i, part in enumerate(dense.separate(x, axis=1)))

    np.testing.assert_array_equal(jax.grad(weigh)(x), np.broadcast_to(np.arange(3)[:, None], x.shape))
    names = {equation.primitive.name for equation in jax.make_jaxpr(jax.grad(weigh))(x).eqns}
    assert "concatenate" in names and "pad" not in names
