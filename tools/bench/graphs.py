"""The works as graphs of minic, in the ops of docs/ir-reference.md. Needs nothing but Python."""

import math


class Inexpressible(Exception):
    """minic has no op or type for it; the text says which."""


def tensor(sizes, dtype):
    return f"tensor<{'x'.join(map(str, (*sizes, dtype)))}>"


class _Value:
    def __init__(self, graph, name, sizes, dtype):
        self.graph, self.name, self.sizes, self.dtype = graph, name, sizes, dtype

    def op(self, kind, *operands, sizes=None, dtype=None, attributes=""):
        """A line `%vN = kind %self, %operands, attributes`; its type is this value's unless stated."""
        operands = ", ".join(value.name for value in (self, *operands))
        return self.graph.line(f"{kind} {operands}{attributes}", self.sizes if sizes is None else sizes, dtype or self.dtype)

    def __add__(self, other):
        return self.op("add", other)

    def __sub__(self, other):
        return self.op("sub", other)

    def __mul__(self, other):
        return self.op("mul", other)

    def __truediv__(self, other):
        return self.op("div", other)

    def __neg__(self):
        return self.op("neg")

    def filled(self, number):
        """A constant of this value's type."""
        return self.graph.line(f"constant {number!r}", self.sizes, self.dtype)

    def convert(self, dtype):
        return self if dtype == self.dtype else self.op("convert", dtype=dtype)

    def along_rows(self, combiner):
        """The last axis reduced."""
        return self.op(f"reduce {combiner}", sizes=self.sizes[:-1], attributes=f", axes = [{len(self.sizes) - 1}]")

    def over(self, other, axes):
        """Repeated to the other's sizes: axis i becomes axes[i]."""
        return self.op("broadcast", sizes=other.sizes, attributes=f", dims = {list(axes)}")

    def as_column_of(self, other):
        return self.over(other, range(len(self.sizes)))

    def as_row_of(self, other):
        return self.over(other, [len(other.sizes) - 1])

    def matmul(self, other):
        return self.op("matmul", other, sizes=(*self.sizes[:-1], other.sizes[-1]))


class _Graph:
    def __init__(self):
        self.lines = []

    def line(self, text, sizes, dtype):
        name = f"%v{len(self.lines)}"
        self.lines.append(f"  {name} = {text} : {tensor(sizes, dtype)}")
        return _Value(self, name, sizes, dtype)


def inputs_of(case):
    """Names and sizes of the inputs, in the order in which every provider takes them."""
    if case.work == "linear":
        n, k, m = case.sizes
        return {"x": (n, k), "w": (k, m), "b": (m,)}
    if case.work == "attention":
        mask = {"mask": case.sizes[2:3] * 2} if case.causal else {}
        return {"q": case.sizes, "k": case.sizes, "v": case.sizes, **mask}
    vectors = {"layernorm": ("gamma", "beta"), "rmsnorm": ("gamma",), "bias_gelu": ("b",)}.get(case.work, ())
    return {"x": case.sizes, **{name: case.sizes[-1:] for name in vectors}}


def result_of(case):
    return (case.sizes[0], case.sizes[2]) if case.work == "linear" else case.sizes


def text_of(case):
    if case.dtype == "tf32":
        raise Inexpressible("minic has no tf32 matmul")
    graph, inputs = _Graph(), inputs_of(case)
    result = _BODIES[case.work](*(_Value(graph, f"%{name}", sizes, case.dtype) for name, sizes in inputs.items()))
    parameters = ", ".join(f"%{name}: {tensor(sizes, case.dtype)}" for name, sizes in inputs.items())
    header = f"graph @{case.work}({parameters}) -> (y: {tensor(result_of(case), case.dtype)}) {{"
    return "\n".join(["minic 1", header, *graph.lines, f"  return {result.name}", "}", ""])


def note_of(case):
    if case.work == "bias_gelu":
        return "erf written out (Abramowitz and Stegun 7.1.26, 1.5e-7): no op gives it"
    if case.causal:
        return "the mask is an input that is added to the scores; nothing is skipped"
    return ""


def _softmax(x):
    e = (x - x.along_rows("max").as_column_of(x)).op("exp")
    return e / e.along_rows("sum").as_column_of(e)


def _linear(x, w, b):
    product = x.matmul(w)
    return (product + b.as_row_of(product)).op("relu")


def _mean(x):
    total = x.along_rows("sum")
    return total / total.filled(float(x.sizes[-1]))


def _scaled(x):
    """x over the root of its mean square, row by row; eps 1e-5."""
    square = _mean(x * x)
    return x * (square + square.filled(1e-05)).op("rsqrt").as_column_of(x)


# The norms and gelu compute in f32, as the libraries do.
def _layernorm(x, gamma, beta):
    wide = x.convert("f32")
    y = _scaled(wide - _mean(wide).as_column_of(wide))
    return (y * gamma.convert("f32").as_row_of(y) + beta.convert("f32").as_row_of(y)).convert(x.dtype)


def _rmsnorm(x, gamma):
    y = _scaled(x.convert("f32"))
    return (y * gamma.convert("f32").as_row_of(y)).convert(x.dtype)


def _erf(u):
    """1 - (a1 t + ... + a5 t^5) exp(-u^2) with t = 1 / (1 + p u) for u >= 0, and odd."""
    one, a = u.filled(1.0), u.op("max", -u)
    t = one / (one + a * u.filled(0.3275911))
    polynomial = u.filled(1.061405429)
    for coefficient in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        polynomial = polynomial * t + u.filled(coefficient)
    y = one - polynomial * t * (-(a * a)).op("exp")
    return u.op("compare lt", u.filled(0.0), dtype="i1").op("select", -y, y, dtype=u.dtype)


def _bias_gelu(x, b):
    z = (x + b.as_row_of(x)).convert("f32")
    return (z * z.filled(0.5) * (z.filled(1.0) + _erf(z * z.filled(math.sqrt(0.5))))).convert(x.dtype)


def _attention(q, k, v, mask=None):
    b, h, s, d = k.sizes
    scores = q.matmul(k.op("transpose", sizes=(b, h, d, s), attributes=", perm = [0, 1, 3, 2]"))
    scores = scores * scores.filled(d**-0.5)
    if mask is not None:
        scores = scores + mask.over(scores, [2, 3])
    return _softmax(scores).matmul(v)


_BODIES = {
    "softmax": _softmax,
    "linear": _linear,
    "layernorm": _layernorm,
    "rmsnorm": _rmsnorm,
    "bias_gelu": _bias_gelu,
    "attention": _attention,
    "copy": lambda x: x,
}
