"""What the checks of random products share: a product that is drawn, its graph's text, bounds of sums, the loop and its report."""
import argparse
import pathlib
import sys

import numpy as np

import minic

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "fuzz"))
from elements import ELEMENTS  # noqa: E402

EPSILON = {"bf16": 2.0**-8, "f16": 2.0**-11, "f32": 2.0**-24, "f64": 2.0**-53, "i32": 0}


def to_bits(values, dtype):
    element = ELEMENTS[dtype]
    return element.to_memory(element.round(values) if element.is_float else values.astype(element.work))


def from_bits(array, dtype):
    array = np.ascontiguousarray(array).view(np.uint16) if dtype == "bf16" else array
    return ELEMENTS[dtype].from_memory(array).astype(np.float64)


def tensor(sizes, dtype):
    return f"tensor<{'x'.join(map(str, (*sizes, dtype)))}>"


def graph_text(params, results, lines, returned):
    """Parameters and results are pairs of a name and a type."""
    takes = ", ".join(f"%{name}: {type}" for name, type in params)
    gives = ", ".join(f"{name}: {type}" for name, type in results)
    return f"graph @g({takes}) -> ({gives}) {{\n  " + "\n  ".join([*lines, "return " + ", ".join(f"%{name}" for name in returned)]) + "\n}\n"


def chain_bound(k, sums="f32"):
    """Of a product, relative to the sum of magnitudes. Tensor cores align the products of a few elements before they add and cut what is below."""
    return (k + 8) * EPSILON[sums]


def beyond(got, value, allowed):
    """What is beyond the bound, or nothing; and the largest error in bounds."""
    far = np.abs(got - value) / allowed
    worst = far.max() if far.size else 0.0
    return (f"{int((~(far <= 1)).sum())} of {far.size} beyond the bound, by up to {worst:.3g}" if not worst <= 1 else ""), worst


class Product:
    """x times w, or several w, the inputs, and the lines of the graph; the checks draw the sizes, and what stands behind the products."""

    def __init__(self, rng):
        self.rng = rng
        self.inputs, self.drawn, self.lines = {}, {}, []  # `drawn`: how each input is.
        self.sizes = {}  # Of the graph's values.
        self.x, self.products = None, 0
        self.chunk = 0  # Elements of k in a piece, where the product is cut.

    def pick(self, *choices):
        return choices[self.rng.integers(len(choices))]

    def values(self, name, sizes, dtype, scale):
        """What an input holds."""
        return self.rng.standard_normal(sizes) * scale

    def input(self, name, sizes, dtype, scale=1.0):
        self.drawn[name] = sizes, dtype, scale
        self.inputs[name] = to_bits(self.values(name, sizes, dtype, scale), dtype)
        return from_bits(self.inputs[name], dtype).reshape(sizes)

    def emit(self, name, text, sizes, dtype):
        self.sizes[name] = sizes
        self.lines.append(f"%{name} = {text} : {tensor(sizes, dtype)}")

    def operand(self, name, batch, rows, columns, dtype, across, scale=1.0):
        """Its name in the graph and its values, as rows by columns."""
        values = self.input(name, (*batch, columns, rows) if across else (*batch, rows, columns), dtype, scale)
        if not across:
            return name, values
        axes = [*range(len(batch)), len(batch) + 1, len(batch)]
        self.emit(f"{name}t", f"transpose %{name}, perm = {axes}", (*batch, rows, columns), dtype)
        return f"{name}t", values.swapaxes(-1, -2)

    def multiply(self, operands, dtype, precision=""):
        """Emits `%p`, the next time `%p1`, of m, k, n, batch, w_batch, x_across and w_across; gives its name, x and a w of its own."""
        number = str(self.products) if self.products else ""
        self.products += 1
        self.x = self.x or self.operand("x", self.batch, self.m, self.k, operands, self.x_across)
        x_name, x = self.x
        w_name, w = self.operand(f"w{number}", self.w_batch, self.k, self.n, operands, self.w_across, self.k**-0.5)
        self.shape = (*self.batch, self.m, self.n)
        name, text = f"p{number}", f"matmul %{x_name}, %{w_name}" + (f", precision = {precision}" if precision else "")
        if not self.chunk:
            self.emit(name, text, self.shape, dtype)
            return name, x, w
        sums = ELEMENTS[operands].accumulator.name
        self.emit(f"pieces{number}", f"{text}, chunks = [{self.chunk}]", (self.pieces, *self.shape), sums)
        self.emit(name if sums == dtype else f"sum{number}", f"reduce sum %pieces{number}, axes = [0]", self.shape, sums)
        if sums != dtype:
            self.emit(name, f"convert %sum{number}", self.shape, dtype)
        return name, x, w

    @property
    def pieces(self):
        return -(-self.k // self.chunk) if self.chunk else 1

    def text_of(self, results):
        """The graph that gives values: pairs of a name and an element type."""
        params = [(name, tensor(sizes, dtype)) for name, (sizes, dtype, _) in self.drawn.items()]
        given = [(f"y{i}", tensor(self.sizes[name], dtype)) for i, (name, dtype) in enumerate(results)]
        return graph_text(params, given, self.lines, [name for name, _ in results])


def arguments(doc, count, device=True):
    """A parser of the flags that all have; `doc` is the check's own text."""
    parser = argparse.ArgumentParser(description=doc.split("\n\n")[0])
    if device:
        parser.add_argument("--device", default="auto")
    parser.add_argument("--count", type=int, default=count)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--large", action="store_true")
    return parser


def check_all(options, draw, check):
    """Draws products and checks each: `check(product, index)` lists what is wrong. Prints it with the graph; gives how many faults there are."""
    faults = 0
    for index in range(options.count):
        product = draw(np.random.default_rng([options.seed, index]))
        try:
            wrong = check(product, index)
        except minic.MinicError as error:
            wrong = [str(error)]
        faults += len(wrong)
        for why in wrong:
            print(f"seed {options.seed}, index {index}: {why}\n{product.text}", flush=True)
    return faults
