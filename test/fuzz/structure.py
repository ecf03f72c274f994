"""What ops with structure give, from NumPy: views, reductions, matmul."""

import numpy as np

from elements import WIDE, add_to_odd
from scalars import Exact, Near, near


def broadcast(node, operands, sizes):
    values, dims = operands[0], node.attrs["dims"]
    shape = [1] * len(sizes)
    for axis, size in zip(dims, values.shape):
        shape[axis] = size
    return np.broadcast_to(values.reshape(shape), sizes)


def strided(node, operands, sizes):
    values = operands[0]
    ranges = zip(node.attrs["starts"], node.attrs["limits"], node.attrs["steps"])
    return values[tuple(slice(int(start), size if isinstance(limit, tuple) else limit, step)
                        for (start, limit, step), size in zip(ranges, values.shape))]


def pad(node, operands, sizes):
    values = operands[0]
    result = np.full(sizes, node.data, values.dtype)
    result[tuple(slice(low, low + size) for low, size in zip(node.attrs["low"], values.shape))] = values
    return result


VIEWS = {
    "slice": strided,
    "pad": pad,
    "concat": lambda node, operands, sizes: np.concatenate(operands, axis=node.attrs["axis"]),
    "broadcast": broadcast,
    "reshape": lambda node, operands, sizes: operands[0].reshape(sizes),
    "transpose": lambda node, operands, sizes: operands[0].transpose(node.attrs["perm"]),
}
"""Ops that only move elements: (node, operands, result's sizes) -> values."""


class Combiner:
    """A combiner region over `types` of accumulators. `lines` are its ops, `yields` what it gives."""

    def __init__(self, name, operands, init, lines, yields, evaluate, takes):
        self.name, self.operands, self.init = name, operands, init
        self.lines, self.yields, self.evaluate, self.takes = lines, yields, evaluate, takes

    def __reduce__(self):
        return combiner_named, (self.name,)

    def region(self, elements):
        """The region, one line; T, I and B stand for the types of the first operand, the second and their compares."""
        names = [f"%a{i}" for i in range(self.operands)] + [f"%b{i}" for i in range(self.operands)]
        arguments = ", ".join(f"{name}: {elements[i % self.operands]}" for i, name in enumerate(names))
        lines = "; ".join(self.lines).replace("T", elements[0]).replace("I", elements[-1])
        return "{ ^(" + arguments + "):\n    " + lines.replace("; ", "\n    ") + f"\n    yield {', '.join(self.yields)}\n  }}"


def _moved(values, axes):
    """The reduced axes together and last."""
    kept = [a for a in range(values.ndim) if a not in axes]
    count = int(np.prod([values.shape[a] for a in axes], dtype=np.int64))
    return values.transpose(kept + list(axes)).reshape([values.shape[a] for a in kept] + [count])


def _pieces(values, node, fill):
    """_moved, where `chunks` cut the axes with the numbers of pieces in front."""
    axes, chunks = node.attrs["axes"], node.attrs.get("chunks")
    if chunks is None:
        return _moved(values, axes)
    shape, behind = [], {}
    for a, size in enumerate(values.shape):
        if a in axes:
            chunk = chunks[axes.index(a)]
            behind[a] = len(shape)
            shape += [-(-size // chunk), chunk]
        else:
            shape.append(size)
    padding = [(0, -size % chunks[axes.index(a)] if a in axes else 0) for a, size in enumerate(values.shape)]
    cut = np.pad(values, padding, constant_values=fill).reshape(shape)
    front = [behind[a] for a in axes]
    inner = [a + 1 for a in front]
    kept = [a for a in range(cut.ndim) if a not in front + inner]
    return _moved(cut.transpose(front + kept + inner), list(range(len(front) + len(kept), cut.ndim)))


def identity(element, word):
    if element.is_int:
        info = np.iinfo(element.work)
        return {"sum": 0, "max": info.min, "min": info.max}[word]
    return {"sum": 0.0, "max": -np.inf, "min": np.inf}[word]


def fold(function, values, start, element):
    result = np.full(values.shape[:-1], start, element.work)
    for i in range(values.shape[-1]):
        result = function(result, values[..., i])
    return result


def reduce_extreme(word, values, element):
    """max or min along the last axis: NaN if there is one, +0.0 above -0.0."""
    start = identity(element, word)
    if not element.is_float:
        return (np.max if word == "max" else np.min)(values, axis=-1, initial=start)
    result = (np.max if word == "max" else np.min)(values, axis=-1, initial=element.work.type(start))
    zeros, negative = values == 0, np.signbit(values)
    sign = ~(zeros & ~negative).any(-1) if word == "max" else (zeros & negative).any(-1)
    return np.where(result == 0, np.where(sign, -0.0, 0.0).astype(element.work), result)


def depth_of(shape, axes):
    """How many additions lie one behind the other at most: blocks of the innermost axis one after the other, its elements in a tree."""
    if not axes:
        return 1
    inner, outer = shape[axes[-1]], int(np.prod([shape[a] for a in axes[:-1]], dtype=np.int64))
    count = max(inner * outer - 1, 0)
    return min(count, int(np.ceil(np.log2(max(min(inner, 64), 1)))) + outer * -(-inner // 64) + 1)


def sum_error(depth, magnitude, element):
    """Of `depth` roundings, each relative to at most the sum of magnitudes."""
    unit = WIDE(2.0) ** -element.accumulator.digits
    return magnitude * (depth * unit / (1 - depth * unit))


def reduce_sum(values, depth, element, result):
    """Of floats along the last axis."""
    wide = values.astype(WIDE)
    total, magnitude = wide.sum(-1), np.abs(wide).sum(-1)
    special = ~np.isfinite(magnitude)
    whole = (values == np.trunc(values)).all(-1) & (magnitude < 2.0 ** element.accumulator.digits)
    error = np.where(special | whole, 0, sum_error(depth, magnitude, element))
    expected = near(np.where(total == 0, WIDE(0), total), 0, result, error)
    expected.free = np.abs(np.where(np.isfinite(wide), wide, 0)).sum(-1) > element.accumulator.largest
    expected.plus_zero = whole & (total == 0)
    return expected


def expect_reduce(node, operands, elements, results):
    axes = node.attrs["axes"]
    if node.combiner is not None:
        return node.combiner.evaluate([_moved(values, axes) for values in operands], elements, results)
    element = elements[0]
    values = _pieces(operands[0], node, identity(element, node.word))
    if node.word == "sum":
        if element.is_int:
            return [Exact(values.sum(-1, dtype=element.accumulator.work).astype(results[0].work))]
        return [reduce_sum(values, depth_of(operands[0].shape, axes), element, results[0])]
    return [Exact(reduce_extreme(node.word, values, element))]


def pieces_of_product(a, b, chunks):
    """The operands of a matmul; where `chunks` cut k, its pieces stand in front, and zeros fill up the last one."""
    if chunks is None:
        return a, b
    chunk, rank, k = chunks[0], max(a.ndim, b.ndim), a.shape[-1]
    a, b = (values.reshape((1,) * (rank - values.ndim) + values.shape) for values in (a, b))
    kept = [(0, 0)] * (rank - 2)
    a, b = np.pad(a, [*kept, (0, 0), (0, -k % chunk)]), np.pad(b, [*kept, (0, -k % chunk), (0, 0)])
    a, b = a.reshape(*a.shape[:-1], -(-k // chunk), chunk), b.reshape(*b.shape[:-2], -(-k // chunk), chunk, b.shape[-1])
    return np.moveaxis(a, -2, 0), np.moveaxis(b, -3, 0)


def expect_matmul(node, operands, element, result):
    a, b = pieces_of_product(*operands, node.attrs.get("chunks"))
    if element.is_int:
        wide = element.accumulator.work
        return [Exact(np.matmul(a.astype(wide), b.astype(wide)).astype(result.work))]
    depth = a.shape[-1]
    if element.name != "f64" and depth <= 160:
        return [Exact(result.round(matmul_chain(a, b)))]
    wide_a, wide_b = a.astype(WIDE), b.astype(WIDE)
    total, magnitude = np.matmul(wide_a, wide_b), np.matmul(np.abs(wide_a), np.abs(wide_b))
    special = ~np.isfinite(magnitude)
    error = np.where(special, 0, sum_error(depth + 1, magnitude, element) + depth * np.ldexp(WIDE(1), element.accumulator.least))
    expected = near(total, 0, result, error)
    finite_a, finite_b = (np.abs(np.where(np.isfinite(wide), wide, 0)) for wide in (wide_a, wide_b))
    expected.free = np.matmul(finite_a, finite_b) > element.accumulator.largest
    return [expected]


def matmul_chain(a, b):
    """f32 fused multiply-adds in ascending k from +0.0, and + 0.0: products are exact in float64, each sum is rounded once."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    total = np.zeros(a.shape[:-1] + b.shape[-1:], np.float32)
    for k in range(a.shape[-1]):
        product = a[..., :, k, None] * b[..., None, k, :]
        total = add_to_odd(product, total.astype(np.float64)).astype(np.float32)
    return total + np.float32(0)


# Combiners.


def _product(moved, elements, results):
    values, element = moved[0], elements[0]
    if element.is_int:
        return [Exact(values.prod(-1, dtype=element.accumulator.work).astype(results[0].work))]
    wide = values.astype(WIDE)
    count = values.shape[-1]
    # Partial products may leave the range in one order and not in another.
    logs = np.where(wide == 0, 0, np.abs(np.log2(np.abs(np.where(np.isfinite(wide) & (wide != 0), wide, 1))))).sum(-1)
    error = np.abs(wide.prod(-1)) * (count + 1) * WIDE(2.0) ** -element.accumulator.digits
    total = wide.prod(-1)
    expected = near(total, 0, results[0], error)
    limit = 120 if element.accumulator.name == "f32" else 1000
    expected.free = (logs > limit) | ~np.isfinite(wide).all(-1)
    return [expected]


def _bitwise(function, start):
    return lambda moved, elements, results: [
        Exact(fold(function, moved[0].astype(elements[0].accumulator.work), start, elements[0].accumulator).astype(results[0].work))]


def _sum_and_max(moved, elements, results):
    first = reduce_sum(moved[0], moved[0].shape[-1], elements[0], results[0])
    return [first, Exact(reduce_extreme("max", moved[1], elements[1]))]


def _argmax(moved, elements, results):
    """The largest value and the least position of it; nothing is promised with NaN."""
    values, positions = moved
    best = reduce_extreme("max", values, elements[0])
    lowest = np.where(values == best[..., None], positions, np.iinfo(np.int32).max).min(-1, initial=np.iinfo(np.int32).max)
    unordered = np.isnan(values).any(-1)
    at = Near(lowest.astype(WIDE), lowest.astype(WIDE), unordered)
    # Of zeros of both signs either may be the one that is kept.
    return [Near(best.astype(WIDE), best.astype(WIDE), unordered), at]


def _simple(name, op, init, evaluate, takes):
    return Combiner(name, 1, [init], [f"%r = {op} %a0, %b0 : T"], ["%r"], evaluate, takes)


COMBINERS = [
    _simple("product", "mul", 1, _product, ("float int",)),
    _simple("all bits", "and", -1, _bitwise(np.bitwise_and, -1), ("int",)),
    _simple("any bit", "or", 0, _bitwise(np.bitwise_or, 0), ("int",)),
    _simple("odd bits", "xor", 0, _bitwise(np.bitwise_xor, 0), ("int",)),
    _simple("largest", "max", "-inf", lambda m, e, r: [Exact(reduce_extreme("max", m[0], e[0]))], ("float",)),
    Combiner("sum and max", 2, [0.0, "-inf"], ["%s = add %a0, %b0 : T", "%m = max %a1, %b1 : I"], ["%s", "%m"], _sum_and_max,
             ("float", "float")),
    Combiner("argmax", 2, ["-inf", 2147483647],
             ["%gt = compare gt %b0, %a0 : i1", "%eq = compare eq %b0, %a0 : i1", "%lt = compare lt %b1, %a1 : i1",
              "%tie = and %eq, %lt : i1", "%take = or %gt, %tie : i1", "%v = select %take, %b0, %a0 : T",
              "%i = select %take, %b1, %a1 : I"], ["%v", "%i"], _argmax, ("float", "i32")),
]


ALONG_AXES = {"gather", "iota", "cumsum", "argmax", "mean", "softmax", "layernorm", "rmsnorm"}
"""Ops whose elements depend on others' positions or values."""


def gather(node, operands, sizes):
    """Rows below 0 take the first, past the end the last; of an empty axis there are only zeros."""
    table, rows = operands
    axis = node.attrs["axis"]
    if table.shape[axis] == 0:
        return np.zeros(sizes, table.dtype)
    return np.take(table, np.clip(rows, 0, table.shape[axis] - 1), axis=axis)


def iota(node, sizes, result):
    axis = node.attrs["axis"]
    shape = [1] * len(sizes)
    shape[axis] = sizes[axis]
    return np.broadcast_to(np.arange(sizes[axis], dtype=result.work).reshape(shape), sizes)


def cumsum(node, values, element, result):
    """One after the other from +0.0, in the accumulator's type, and each rounded."""
    axis, wide = node.attrs["axis"], element.accumulator
    sums = np.cumsum(values.astype(wide.work) + wide.work.type(0), axis=axis, dtype=wide.work)
    return result.round(sums) if result.is_float else sums.astype(result.work)


def argmax(node, values, element, result):
    """The first NaN, else the first of the largest."""
    axis = node.attrs["axis"]
    if values.shape[axis] == 0:
        return np.full(np.delete(values.shape, axis), np.iinfo(result.work).max, result.work)
    return np.argmax(values, axis=axis).astype(result.work)


# Composites: what they are made of rounds, so they get bounds. `unit` is the accumulator's relative error of one rounding.


def _unit(element):
    return WIDE(2.0) ** -element.accumulator.digits


def mean(node, values, element, result):
    moved = _moved(values.astype(WIDE), node.attrs["axes"])
    count = moved.shape[-1]
    total, magnitude = moved.sum(-1), np.abs(moved).sum(-1)
    if count == 0:
        return Near(np.full(total.shape, np.nan), np.full(total.shape, np.nan))
    special = ~np.isfinite(magnitude)
    error = np.where(special, 0, sum_error(depth_of(values.shape, node.attrs["axes"]), magnitude, element) / count)
    expected = near(total / count, 1, result, np.where(special, 0, error + np.abs(total / count) * _unit(element)))
    expected.free = np.abs(np.where(np.isfinite(moved), moved, 0)).sum(-1) > element.accumulator.largest
    return expected


def softmax(node, values, element, result):
    axis = node.attrs["axis"]
    wide = values.astype(WIDE)
    shifted = wide - np.max(wide, axis=axis, keepdims=True, initial=-np.inf)
    powers = np.exp(shifted)
    true = powers / powers.sum(axis=axis, keepdims=True)
    depth = depth_of(values.shape, [axis])
    finite = np.where(np.isfinite(shifted), np.abs(shifted), 0)
    spread = np.max(np.where(powers > 0, np.minimum(finite, 1000), 0), axis=axis, keepdims=True, initial=0)
    error = np.abs(true) * (finite + spread + depth + 8) * 2 * _unit(element)
    return near(true, 2, result, np.where(np.isfinite(error), error, 0))


def norm(node, operands, element, result):
    """Layer norm and RMS norm: error bounds go along with the values; free where the variance is lost in them."""
    values, axes = operands[0].astype(WIDE), tuple(node.attrs["axes"])
    count = int(np.prod([values.shape[a] for a in axes], dtype=np.int64))
    if count == 0:
        return Near(values, values)
    unit, depth = _unit(element), depth_of(values.shape, node.attrs["axes"]) + 4
    center, center_error, overflows = values, 0 * np.abs(values), False
    if node.op == "layernorm":
        center = values - values.mean(axes, keepdims=True)
        center_error = depth * unit * np.abs(values).mean(axes, keepdims=True) + unit * np.abs(values)
    size = np.abs(center)
    variance = (center**2).mean(axes, keepdims=True)
    variance_error = (2 * size * center_error + center_error**2).mean(axes, keepdims=True) + depth * unit * variance
    total = variance + WIDE(node.attrs["eps"])
    root = 1 / np.sqrt(total)
    relative = variance_error / total + 4 * unit
    true, error = center * root, (center_error + size * relative + size * unit * 2) * root
    error = error + np.ldexp(WIDE(1), element.accumulator.least)
    for i, parameter in enumerate(operands[1:]):
        shape = [size if a in axes else 1 for a, size in enumerate(values.shape)]
        wide = parameter.astype(WIDE).reshape(shape)
        if i == 0:
            true, error = true * wide, error * np.abs(wide)
            overflows = np.abs(true) + error > element.accumulator.largest  # What is added does not bring it back.
        else:
            error = error + unit * np.abs(true)
            true = true + wide
        error = error + unit * np.abs(true)
    expected = near(true, 2, result, np.where(np.isfinite(error), error, 0))
    limit = np.sqrt(WIDE(element.accumulator.largest)) / 16 / max(count, 1)
    lost = overflows | ~(relative < 0.1) | ~np.isfinite(error) | ~((size < limit).all(axes, keepdims=True)) | (variance < WIDE(1e-30))
    expected.free = np.broadcast_to(lost, true.shape)
    return expected


def combiner_named(name):
    return next(combiner for combiner in COMBINERS if combiner.name == name)


def expected(node, operands, elements, results, sizes):
    """One expectation per result of a node that is not element-wise, or None if NumPy is not asked."""
    if node.op in VIEWS:
        return [Exact(VIEWS[node.op](node, operands, sizes[0]))]
    if node.op == "constant":
        return [Exact(np.broadcast_to(node.data, sizes[0]))]
    if node.op == "reduce":
        return expect_reduce(node, operands, elements, results)
    if node.op == "matmul":
        return expect_matmul(node, operands, elements[0], results[0])
    if node.op == "gather":
        return [Exact(gather(node, operands, sizes[0]))]
    if node.op == "iota":
        return [Exact(iota(node, sizes[0], results[0]))]
    if node.op in ("cumsum", "argmax"):
        function = cumsum if node.op == "cumsum" else argmax
        return [Exact(function(node, operands[0], elements[0], results[0]))]
    if node.op in ("mean", "softmax"):
        return [(mean if node.op == "mean" else softmax)(node, operands[0], elements[0], results[0])]
    if node.op in ("layernorm", "rmsnorm"):
        return [norm(node, operands, elements[0], results[0])]
    return None
