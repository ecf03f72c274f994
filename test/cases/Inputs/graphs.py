"""Graphs of any size with the values that arithmetic gives them: the shapes that make compilers slow or overflow their stacks.

    python3 test/cases/Inputs/graphs.py chain 10000 > chain.ir
"""
import sys
from typing import NamedTuple

VECTOR = "tensor<4xf32>"


class Graph(NamedTuple):
    text: str
    inputs: dict  # Name to the number that fills it.
    expected: list  # The number that fills each output.


class _Lines:
    """The body of a graph; each line is one op of one result."""

    def __init__(self):
        self.lines = []

    def op(self, text, kind=VECTOR):
        name = f"%v{len(self.lines)}"
        self.lines.append(f"  {name} = {text} : {kind}")
        return name

    def constant(self, number, kind=VECTOR):
        return self.op(f"constant {float(number)!r}", kind)

    def graph(self, inputs, outputs, kind=VECTOR, result=None):
        """`inputs` are names and numbers, `outputs` pairs of a value and its number."""
        params = ", ".join(f"%{name}: {kind}" for name in inputs)
        results = ", ".join(f"y{i}: {result or kind}" for i in range(len(outputs)))
        lines = [f"graph @g({params}) -> ({results}) {{", *self.lines, "  return " + ", ".join(value for value, _ in outputs), "}"]
        return Graph("\n".join(lines) + "\n", inputs, [number for _, number in outputs])


def chain(n):
    """x + 1 + 1 ..."""
    body = _Lines()
    one, value = body.constant(1), "%x"
    for _ in range(n):
        value = body.op(f"add {value}, {one}")
    return body.graph({"x": 0}, [(value, n)])


def tree(n):
    """A balanced sum of leaves x * 0, x * 1 ... x * 6, x * 0 ..."""
    body = _Lines()
    factors = [body.constant(i) for i in range(7)]
    count = max(1, n // 2)
    # A real use of each leaf: equal ones would be merged.
    level = [body.op(f"mul %x{i % 50}, {factors[i % 7]}") for i in range(count)]
    while len(level) > 1:
        pairs = [body.op(f"add {a}, {b}") for a, b in zip(level[::2], level[1::2])]
        level = pairs + level[len(level) // 2 * 2:]
    return body.graph({f"x{i}": 1 for i in range(50)}, [(level[0], sum(i % 7 for i in range(count)))])


def diamonds(n):
    """a, b = a + b, a - b, twice, is 2a, 2b."""
    body = _Lines()
    half, a, b = body.constant(0.5), "%a", "%b"
    for _ in range(max(1, n // 6)):
        for _ in range(2):
            a, b = body.op(f"add {a}, {b}"), body.op(f"sub {a}, {b}")
        a, b = body.op(f"mul {a}, {half}"), body.op(f"mul {b}, {half}")
    return body.graph({"a": 3, "b": 5}, [(a, 3), (b, 5)])


def outputs(n):
    """50 chains from one input, each with an output."""
    body = _Lines()
    one, results, length = body.constant(1), [], max(1, n // 50)
    for i in range(50):
        value = body.op(f"mul %x, {body.constant(i)}")
        for _ in range(length):
            value = body.op(f"add {value}, {one}")
        results.append((value, 2 * i + length))
    return body.graph({"x": 2}, results)


def inputs(n, count=1000):
    """n sums of `count` inputs in turn; the i-th is filled with i."""
    body = _Lines()
    value = "%x0"
    for i in range(1, n + 1):
        value = body.op(f"add {value}, %x{i % count}")
    used = min(n + 1, count)
    return body.graph({f"x{i}": i for i in range(used)}, [(value, sum(i % count for i in range(n + 1)))])


def inputs_added(n):
    """All inputs added once; the i-th is filled with i."""
    return inputs(n - 1, n)


def products(n):
    """(a + b) * (c + d) * (e + f) * (g + h) of ones, n elements."""
    body, kind = _Lines(), f"tensor<{n}xf16>"
    names = "abcdefgh"
    sums = [body.op(f"add %{a}, %{b}", kind) for a, b in zip(names[::2], names[1::2])]
    value = sums[0]
    for other in sums[1:]:
        value = body.op(f"mul {value}, {other}", kind)
    return body.graph(dict.fromkeys(names, 1), [(value, 16)], kind)


def live(n, count=200):
    """`count` values of which every one is read again after all others were changed, n / count times over."""
    body = _Lines()
    half = body.constant(0.5)
    values = [body.op(f"add %x, {body.constant(i)}") for i in range(count)]
    numbers = [float(i) for i in range(count)]
    for _ in range(max(1, n // (2 * count))):
        values = [body.op(f"mul {body.op(f'add {values[i]}, {values[i - 1]}')}, {half}") for i in range(count)]
        numbers = [(numbers[i] + numbers[i - 1]) / 2 for i in range(count)]
    total, value = numbers[0], values[0]
    for i in range(1, count):
        total, value = total + numbers[i], body.op(f"add {value}, {values[i]}")
    return body.graph({"x": 0}, [(value, total)])


def views(n):
    """Repeated, seen in another shape and reduced again, n / 3 times."""
    body = _Lines()
    value = "%x"
    for _ in range(max(1, n // 3)):
        twice = body.op(f"broadcast {value}, dims = [1]", "tensor<2x4xf32>")
        pairs = body.op(f"reshape {twice}", "tensor<4x2xf32>")
        value = body.op(f"reduce max {pairs}, axes = [1]")
    return body.graph({"x": 3}, [(value, 3)])


def sharing(n):
    """y + y, halved every second time: as a tree it would have 2^n leaves."""
    body = _Lines()
    half, value = body.constant(0.5), "%x"
    for i in range(n):
        value = body.op(f"mul {value}, {half}") if i % 2 else body.op(f"add {value}, {value}")
    return body.graph({"x": 3}, [(value, 6 if n % 2 else 3)])


def doublings(n):
    """y + y, n times."""
    body = _Lines()
    value = "%x"
    for _ in range(n):
        value = body.op(f"add {value}, {value}")
    return body.graph({"x": 1}, [(value, 2**n)])


def doublings_reduced(n):
    """The sum of 5 such elements: in registers that hold 8, so that what the other 3 hold matters."""
    body, kind = _Lines(), "tensor<3x5xf32>"
    value = "%x"
    for _ in range(n):
        value = body.op(f"add {value}, {value}", kind)
    largest = body.op(f"reduce max {value}, axes = [1]", "tensor<3xf32>")
    total = body.op(f"reduce sum {value}, axes = [1]", "tensor<3xf32>")
    return body.graph({"x": 1}, [(largest, 2**n), (total, 5 * 2**n)], kind, "tensor<3xf32>")


def crossing(n):
    """a = a + b, b = a - b, and y * y alternating with y + y."""
    body = _Lines()
    a = b = y = "%x"
    for i in range(n):
        a = body.op(f"add {a}, {b}")
        b = body.op(f"sub {a}, {b}")
        y = body.op(f"mul {y}, {y}" if i % 2 else f"add {y}, {y}")
    return body.graph({"x": 0}, [(a, 0), (b, 0), (y, 0)])


def rank(n):
    """Element-wise ops on tensors of rank n."""
    body, kind = _Lines(), f"tensor<{'2x' * n}f32>"
    return body.graph({"x": 2}, [(body.op(f"add {body.op('mul %x, %x', kind)}, %x", kind), 6)], kind)


def fanout(n):
    """One value that n ops read; each is an output."""
    body = _Lines()
    e = body.op("neg %x")
    return body.graph({"x": 2}, [(body.op(f"mul {e}, {body.constant(i)}"), -2 * i) for i in range(n)])


def residuals(n):
    """A value from the start that is added after each of n / 4 matmuls, with what the sum before it reads of a bias."""
    body, kind = _Lines(), "tensor<4x4xf32>"
    start = body.op("neg %x", kind)
    value, number = start, -1
    half = body.constant(0.5, kind)
    for _ in range(max(1, n // 4)):
        product = body.op(f"matmul {value}, %w", kind)
        total = body.op(f"add {product}, {start}", kind)
        value, number = body.op(f"mul {body.op(f'add {total}, {start}', kind)}, {half}", kind), (4 * number * 0.25 - 2) / 2
    return body.graph({"x": 1, "w": 0.25}, [(value, number)], kind)


def negs(n):
    """n ops that have nothing to do with each other."""
    body = _Lines()
    return body.graph({f"x{i}": i for i in range(n)}, [(body.op(f"neg %x{i}"), -i) for i in range(n)])


def layers(n):
    """softmax(h) times a matrix of ones, n / 8 times: reductions and matmuls."""
    body = _Lines()
    matrix, rows = "tensor<8x8xf32>", "tensor<8xf32>"
    value = "%x"
    for _ in range(max(1, n // 8)):
        largest = body.op(f"reduce max {value}, axes = [1]", rows)
        shifted = body.op(f"sub {value}, {body.op(f'broadcast {largest}, dims = [0]', matrix)}", matrix)
        e = body.op(f"exp {shifted}", matrix)
        total = body.op(f"reduce sum {e}, axes = [1]", rows)
        p = body.op(f"div {e}, {body.op(f'broadcast {total}, dims = [0]', matrix)}", matrix)
        value = body.op(f"matmul {p}, %w", matrix)
    return body.graph({"x": 0, "w": 1}, [(value, 1)], matrix)


SHAPES = {f.__name__: f for f in (chain, tree, diamonds, outputs, inputs, inputs_added, products, live, views, sharing, doublings,
                                  doublings_reduced, crossing, rank, fanout, residuals, negs, layers)}

if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in SHAPES or not sys.argv[2].isdigit():
        sys.exit(f"usage: graphs.py {'|'.join(SHAPES)} N")
    sys.stdout.write(SHAPES[sys.argv[1]](int(sys.argv[2])).text)
