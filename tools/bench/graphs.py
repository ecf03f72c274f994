"""The works as graphs of minic, in the ops of docs/ir-reference.md. Needs nothing but Python."""


def tensor(sizes, dtype):
    dtype = "f32" if dtype == "tf32" else dtype  # A precision of products, not a type.
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

    def filled(self, number):
        """A constant of this value's type."""
        return self.graph.line(f"constant {number!r}", self.sizes, self.dtype)

    def reduced(self, combiner, axes):
        sizes = [size for axis, size in enumerate(self.sizes) if axis not in axes]
        return self.op(f"reduce {combiner}", sizes=sizes, attributes=f", axes = {list(axes)}")

    def over(self, other, axes):
        """Repeated to the other's sizes: axis i becomes axes[i]."""
        return self.op("broadcast", sizes=other.sizes, attributes=f", dims = {list(axes)}")

    def as_row_of(self, other):
        return self.over(other, [len(other.sizes) - 1])

    def normed(self, kind, *parameters):
        """Over the last axis."""
        return self.op(kind, *parameters, attributes=f", axes = [{len(self.sizes) - 1}], eps = 1e-05")

    def matmul(self, other):
        precision = ", precision = tf32" if self.dtype == "tf32" else ""
        return self.op("matmul", other, sizes=(*self.sizes[:-1], other.sizes[-1]), attributes=precision)


class _Graph:
    def __init__(self):
        self.lines = []

    def line(self, text, sizes, dtype):
        name = f"%v{len(self.lines)}"
        self.lines.append(f"  {name} = {text} : {tensor(sizes, dtype)}")
        return _Value(self, name, sizes, dtype)


def text_of(case):
    graph = _Graph()
    values = _BODIES[case.work](*(_Value(graph, f"%{name}", sizes, case.dtype) for name, sizes in case.inputs.items()))
    values = values if isinstance(values, tuple) else (values,)
    parameters = ", ".join(f"%{name}: {tensor(sizes, case.dtype)}" for name, sizes in case.inputs.items())
    results = ", ".join(f"{name}: {tensor(sizes, case.dtype)}" for name, sizes in case.results.items())
    header = f"graph @{case.work}({parameters}) -> ({results}) {{"
    returned = ", ".join(value.name for value in values)
    return "\n".join(["minic 1", header, *graph.lines, f"  return {returned}", "}", ""])


def note_of(case):
    return "the mask is an input that is added to the scores; nothing is skipped" if case.causal else ""


def _softmax(x, axis=-1):
    """Written out, since the op softmax is f32 throughout and torch's eager form is not."""
    axis %= len(x.sizes)
    kept = [other for other in range(len(x.sizes)) if other != axis]
    e = (x - x.reduced("max", [axis]).over(x, kept)).op("exp")
    return e / e.reduced("sum", [axis]).over(e, kept)


def _linear(x, w, b):
    product = x.matmul(w)
    return (product + b.as_row_of(product)).op("relu")


def _linear_residual(x, w, b, r):
    product = x.matmul(w)
    return (product + b.as_row_of(product) + r).op("relu")


def _linear_softmax(x, w, b):
    product = x.matmul(w)
    return (product + b.as_row_of(product)).op("softmax", attributes=", axis = 1")


def _residual_layernorm(x, r, gamma, beta):
    total = x + r
    return total.normed("layernorm", gamma, beta), total


def _attention(q, k, v, mask=None):
    b, h, s, d = k.sizes
    scores = q.matmul(k.op("transpose", sizes=(b, h, d, s), attributes=", perm = [0, 1, 3, 2]"))
    scores = scores * scores.filled(d**-0.5)
    if mask is not None:
        scores = scores + mask.over(scores, [2, 3])
    return _softmax(scores).matmul(v)


_BODIES = {
    "softmax": _softmax,
    "softmax0": lambda x: _softmax(x, 0),
    "linear": _linear,
    "linear_residual": _linear_residual,
    "linear_softmax": _linear_softmax,
    "swiglu": lambda x, w, v: x.matmul(w).op("silu") * x.matmul(v),
    "layernorm": lambda x, gamma, beta: x.normed("layernorm", gamma, beta),
    "residual_layernorm": _residual_layernorm,
    "rmsnorm": lambda x, gamma: x.normed("rmsnorm", gamma),
    "bias_gelu": lambda x, b: (x + b.as_row_of(x)).op("gelu"),
    "bias_relu": lambda x, b: (x + b.as_row_of(x)).op("relu"),
    "transpose": lambda x: x.op("transpose", sizes=x.sizes[::-1], attributes=", perm = [1, 0]"),
    "sum0": lambda x: x.reduced("sum", [0]),
    "sum_all": lambda x: x.reduced("sum", range(len(x.sizes))),
    "attention": _attention,
    "copy": lambda x: x,
}
