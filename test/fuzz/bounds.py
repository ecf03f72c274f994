"""What `default` numerics may give: an interval for each element, from the inputs on, over every order of sums and every choice of which
16-bit values stay in f32. Where nothing was rounded in a way that is free, the bits must be those of `exact`."""

import itertools

import numpy as np

import scalars
import structure
from elements import WIDE

APPROXIMATE = WIDE(2.0) ** -20
"""The relative error that an op of 16-bit floats may have in f32."""

HALF_FORMS = {"exp", "tanh", "sigmoid", "silu", "erf", "gelu", "gelu_tanh"}
HALF_FORM_ERROR = WIDE(2.0) ** -14
"""That of functions with a form for results of 16 bits (docs/numerics.md, "default")."""
LEAST_NORMAL = WIDE(2.0) ** -126


class Interval:
    """Between `low` and `high`, and of unknown value where those are infinite; `exact`: all of it has the bits of exact numerics."""

    def __init__(self, low, high, exact=False):
        self.low, self.high, self.exact = np.asarray(low, WIDE), np.asarray(high, WIDE), exact

    def known(self):
        return np.isfinite(self.low) & np.isfinite(self.high)


def point(values):
    return Interval(values, values, True)


def unknown(shape):
    return Interval(np.full(shape, -np.inf, WIDE), np.full(shape, np.inf, WIDE))


def settle(low, high, error, element):
    """An interval of results before rounding, with what rounding or its absence may add."""
    low, high = low - error, high + error
    if element.is_float:
        rounding = np.maximum(element.unit(low), element.unit(high))
        low, high = low - rounding, high + rounding
        high = np.where(high > element.largest, np.inf, high)
        low = np.where(low < -element.largest, -np.inf, low)
    lost = ~(np.isfinite(low) & np.isfinite(high))
    return Interval(np.where(lost, -np.inf, low), np.where(lost, np.inf, high))


def corners(function, operands):
    """The hull of a monotone function; unknown where an operand or a corner is."""
    results = [np.asarray(function(*ends)) for ends in itertools.product(*((o.low, o.high) for o in operands))]
    low, high = np.minimum.reduce(results), np.maximum.reduce(results)
    known = np.isfinite(low) & np.isfinite(high)
    for operand in operands:
        known = known & operand.known()
    return np.where(known, low, -np.inf), np.where(known, high, np.inf)


def _divides(low, high):
    return (low <= 0) & (high >= 0)


def elementwise(node, operands, result, elements, rounded_later):
    if node.op == "compare":
        return compare(node.word, *operands)
    if node.op == "select":
        return select(*operands)
    if node.op == "convert":
        return convert(operands[0], result)
    if node.op not in scalars.MONOTONE or not result.is_float:
        return unknown(np.broadcast_shapes(*(o.low.shape for o in operands)))
    function, units = scalars.NEAR.get(node.op) or (scalars.EXACT[node.op], int(node.op in scalars.TWICE_ROUNDED))
    low, high = corners(function, operands)
    if node.op == "div":
        straddles = _divides(operands[1].low, operands[1].high)
        low, high = np.where(straddles, -np.inf, low), np.where(straddles, np.inf, high)
    size = np.maximum(np.abs(low), np.abs(high))
    free = 0
    if result.is_narrow or rounded_later:
        free = HALF_FORM_ERROR if node.op in HALF_FORMS else APPROXIMATE
    error = np.where(np.isfinite(size), size * free + units * result.accumulator.unit(size), 0)
    if node.op == "exp" and free:
        low = np.where(low < LEAST_NORMAL, 0, low)  # Denormal results may be 0.
    return settle(low, high, error, result)


def compare(word, a, b):
    function = scalars.COMPARE[word]
    if word in ("eq", "ne"):
        apart = (a.high < b.low) | (b.high < a.low)
        return Interval(np.where(apart, word == "ne", 0), np.where(apart, word == "ne", 1))
    results = [function(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    known = a.known() & b.known()
    return Interval(np.logical_and.reduce(results) & known, np.logical_or.reduce(results) | ~known)


def select(condition, a, b):
    sure, never = condition.low == 1, condition.high == 0
    low = np.where(sure, a.low, np.where(never, b.low, np.minimum(a.low, b.low)))
    high = np.where(sure, a.high, np.where(never, b.high, np.maximum(a.high, b.high)))
    return Interval(np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high))


def convert(a, result):
    known = a.known()
    low, high = np.where(known, a.low, 0), np.where(known, a.high, 0)
    if result.kind == "bool":
        zero_inside = (low <= 0) & (high >= 0)
        return Interval(np.where(known & ~zero_inside, 1, 0), np.ones(low.shape))
    if result.is_float:
        settled = settle(low, high, 0, result)
        return Interval(np.where(known, settled.low, -np.inf), np.where(known, settled.high, np.inf))
    info = np.iinfo(result.work)
    low, high = (np.clip(np.trunc(end), WIDE(info.min), WIDE(info.max)) for end in (low, high))
    return Interval(np.where(known, low, info.min), np.where(known, high, info.max))


def reduced(node, operand, result, element):
    fill = 0 if node.combiner is not None else structure.identity(element, node.word)
    low, high = (structure._pieces(end, node, fill) for end in (operand.low, operand.high))
    if node.word in ("max", "min") and node.combiner is None:
        start = structure.identity(element, node.word)
        function = np.max if node.word == "max" else np.min
        low, high = function(low, -1, initial=start), function(high, -1, initial=start)
        return settle(low, high, 0, result) if element.is_narrow else Interval(low, high)
    if node.word == "sum" and element.is_float:
        magnitude = np.maximum(np.abs(low), np.abs(high)).sum(-1)
        depth = structure.depth_of(operand.low.shape, node.attrs["axes"])
        return settle(low.sum(-1), high.sum(-1), _error(depth, magnitude, element), result)
    return unknown(low.shape[:-1])


def _error(depth, magnitude, element):
    """Infinite where a partial sum may leave the range."""
    error = structure.sum_error(depth, magnitude, element)
    return np.where(magnitude <= element.accumulator.largest, error, np.inf)


def matmul(a, b, chunks, result, element):
    middle_a, middle_b = structure.pieces_of_product((a.low + a.high) / 2, (b.low + b.high) / 2, chunks)
    radius_a, radius_b = structure.pieces_of_product((a.high - a.low) / 2, (b.high - b.low) / 2, chunks)
    size_a, size_b = np.abs(middle_a), np.abs(middle_b)
    total = middle_a @ middle_b
    radius = size_a @ radius_b + radius_a @ size_b + radius_a @ radius_b
    depth = a.low.shape[-1]
    # In f64 and f32 both paths multiply and add; products below the least denormal may vanish.
    magnitude = (size_a + radius_a) @ (size_b + radius_b)
    error = _error(depth + 2, magnitude, element)
    if element.codes is not None:  # Tensor cores align 33 terms to the largest and cut them to 14 bits, four times in a block.
        error = error + 4 * 33 * WIDE(2.0) ** -13 * magnitude
    error = error + depth * np.ldexp(WIDE(1), element.accumulator.least)
    return settle(total - radius, total + radius, error, result)


def propagate(graph, exact_values):
    """Intervals of all values. `exact_values`: what exact numerics give."""
    found, later = {}, _rounded_later(graph)
    for number, node in graph.nodes.items():
        operands = [found[tuple(value)] for value in node.operands]
        elements = [graph.type(value).e for value in node.operands]
        results = [t.e for t in node.types]
        exact = all(o.exact for o in operands) and not _is_free(node, elements, results, number in later)
        for i, t in enumerate(node.types):
            if exact:
                found[number, i] = point(exact_values[number, i])
            elif node.op in structure.VIEWS:
                sizes = t.sizes(graph.bind)
                low, high = (structure.VIEWS[node.op](node, [getattr(o, end) for o in operands], sizes) for end in ("low", "high"))
                found[number, i] = Interval(low, high, all(o.exact for o in operands))
            elif node.op == "gather" and operands[1].exact:
                sizes, rows = t.sizes(graph.bind), exact_values[tuple(node.operands[1])]
                low, high = (structure.gather(node, [getattr(operands[0], end), rows], sizes) for end in ("low", "high"))
                found[number, i] = Interval(low, high)
            elif node.op == "reduce":
                found[number, i] = reduced(node, operands[i], t.e, elements[i])
            elif node.op == "matmul" and elements[0].is_float:
                found[number, i] = matmul(*operands, node.attrs.get("chunks"), t.e, elements[0])
            elif node.op == "matmul" or node.op in structure.ALONG_AXES:
                found[number, i] = unknown(t.sizes(graph.bind))
            else:
                found[number, i] = elementwise(node, operands, t.e, elements, number in later)
    return found


def _rounded_later(graph):
    """The nodes from which a conversion to a narrow float is reached: what rounds to 16 bits in the end may be computed no better."""
    later = set()
    for number, node in reversed(graph.nodes.items()):
        if number in later or (node.op == "convert" and node.types[0].e.is_float and node.types[0].e.is_narrow):
            later.update(operand[0] for operand in node.operands)
    return later


def _is_free(node, elements, results, rounded_later):
    """Whether default numerics may give other bits than exact ones on the same operands."""
    if node.op in structure.VIEWS or node.op in ("input", "constant", "gather", "iota", "argmax"):
        return False
    if node.op in ("mean", "softmax", "layernorm", "rmsnorm"):
        return True
    if any(e.is_narrow for e in elements + results):
        return node.op not in ("compare", "select", "neg", "max", "min", "relu", "convert") and not (
            node.op == "reduce" and node.word in ("max", "min"))
    if rounded_later and node.op in HALF_FORMS | {"div"} and results[0].is_float:
        return True
    if node.op == "reduce":
        return any(e.is_float for e in results) and node.word not in ("max", "min")
    return node.op == "matmul" and results[0].is_float


def wrong(interval, exact, got, element):
    """Where a result of default numerics is not one that it may be."""
    if interval.exact:
        return element.differs(exact, got)
    value = got.astype(WIDE)
    outside = (value < interval.low) | (value > interval.high) | np.isnan(value)
    return outside & interval.known()
