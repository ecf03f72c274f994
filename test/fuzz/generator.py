"""Random well-typed graphs."""

import math

import numpy as np

from elements import ELEMENTS, random_values, special_values
from graphs import Dim, Graph, Node, Type
from structure import COMBINERS

SIZES = [1, 1, 2, 2, 3, 4, 5, 7, 8, 13, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 255, 256, 257, 1000, 1023, 1024, 1025, 4097]
BUDGET = [40, 40, 40, 130, 130, 300, 300, 1100, 1100, 5000]
"""Elements of a tensor, one drawn for each graph."""
MATMUL_WORK = 20000
STRUCTURE = {
    "broadcast": 3, "reshape": 2, "transpose": 2, "reduce": 5, "matmul": 2, "slice": 2, "pad": 1, "concat": 1, "gather": 1, "iota": 0.5,
    "cumsum": 0.7, "softmax": 0.7, "layernorm": 0.5, "rmsnorm": 0.5, "mean": 0.7, "argmax": 0.7,
}
"""How often ops with structure come, beside 14 for element-wise ones."""


class Stuck(Exception):
    """What was tried does not fit; something else is tried."""


class Generator:
    def __init__(self, table, stored, rng, only=None):
        self.table, self.rng = table, rng
        self.stored = [name for name in stored if name in ELEMENTS]
        self.elementwise = [op for op in table.values() if op.elementwise and (not only or op.name in only)]
        self.structure = [name for name in STRUCTURE if name in table and (not only or name in only)]
        self.graph = Graph()
        self.budget = int(rng.choice(BUDGET))
        self.favourite = self.pick(self.stored)
        self.pool = self.sizes()

    def pick(self, items):
        items = list(items)
        return items[int(self.rng.integers(len(items)))]

    def chance(self, probability):
        return self.rng.random() < probability

    def sizes(self):
        """Sizes that the graph's shapes are made of: some are names, some are equal in number only."""
        pool = []
        for name in ("M", "N", "K")[: 1 + int(self.rng.integers(3))]:
            value = 0 if self.chance(0.02) else min(self.pick(SIZES), self.budget)
            if self.chance(0.35):
                self.graph.bind[name] = value
                pool.append(Dim(1, (name,)))
            else:
                pool.append(Dim(value))
        return pool

    def count(self, shape):
        return math.prod(size.value(self.graph.bind) for size in shape)

    def fits(self, shape):
        return self.count(shape) <= self.budget and len(shape) <= 5

    def shape(self):
        shape = []
        for _ in range(int(self.rng.choice(6, p=[0.06, 0.25, 0.37, 0.18, 0.09, 0.05]))):
            size = Dim(1) if self.chance(0.12) else self.pick(self.pool)
            size = size if self.fits(shape + [size]) else self.pick([Dim(1), Dim(2), Dim(3)])
            shape.append(size if self.fits(shape + [size]) else Dim(1))
        return tuple(shape)

    def element(self, allowed):
        allowed = [name for name in allowed if name in self.stored]
        if not allowed:
            raise Stuck
        return self.favourite if self.favourite in allowed and self.chance(0.6) else self.pick(allowed)

    # Values.

    def input(self, t):
        return self.graph.add(Node("input", types=[t])), 0

    def constant(self, t):
        element = t.e
        static = all(size[1] == () for size in t.shape)
        sizes = t.sizes(self.graph.bind)
        if static and 0 < math.prod(sizes) <= 12 and self.chance(0.3):
            data = random_values(element, sizes, self.rng)
            word = nested(data, element)
        else:
            pool = special_values(element) if self.chance(0.4) else random_values(element, (4,), self.rng)
            data = pool[int(self.rng.integers(len(pool)))]
            word = element.text(data)
        return self.graph.add(Node("constant", types=[t], word=word, data=data)), 0

    def existing(self, accept):
        """One of the values so far that is accepted, recent ones rather."""
        values = [value for value in self.graph.values() if accept(self.graph.type(value))]
        if not values:
            raise Stuck
        if self.chance(0.6):
            values = values[-3:]
        return self.pick(values)

    def value(self, t):
        """A value of this type: one that is there, or a new one."""
        if not self.fits(t.shape):
            raise Stuck
        if self.chance(0.6):
            try:
                return self.existing(lambda other: other == t)
            except Stuck:
                pass
        way = self.rng.random()
        if way < 0.25:
            return self.constant(t)
        if way < 0.5 and "convert" in self.table:
            try:
                source = self.existing(lambda other: other.shape == t.shape and other.element != t.element)
                return self.emit("convert", [source], [t])
            except Stuck:
                pass
        if way < 0.8 and "broadcast" in self.table:
            try:
                source = self.existing(lambda other: other.element == t.element and self.embeds(other.shape, t.shape))
                return self.emit("broadcast", [source], [t], dims=self.embeds(self.graph.type(source).shape, t.shape))
            except Stuck:
                pass
        return self.input(t)

    @staticmethod
    def embeds(shape, into):
        """Axes of `into` that hold those of `shape`, or None."""
        axes, at = [], 0
        for size in shape:
            while at < len(into) and not (into[at] == size or size == Dim(1)):
                at += 1
            if at == len(into):
                return None
            axes.append(at)
            at += 1
        return axes if len(shape) < len(into) or any(a != b for a, b in zip(shape, into)) else None

    def emit(self, op, operands, types, **more):
        number = self.graph.add(Node(op, operands, types, **more))
        return number, 0

    def any_value(self, elements):
        """A value of one of the element types, of any shape."""
        element = self.element(elements)
        try:
            return self.existing(lambda t: t.element == element)
        except Stuck:
            return self.value(Type(element, self.shape()))

    # Ops.

    def step(self):
        """One op more."""
        weights = [14.0 if self.elementwise else 0] + [float(STRUCTURE[name]) for name in self.structure]
        choice = int(self.rng.choice(len(weights), p=np.array(weights) / sum(weights)))
        if choice == 0:
            self.add_elementwise(self.pick(self.elementwise))
        else:
            getattr(self, "add_" + self.structure[choice - 1])()

    def add_elementwise(self, op):
        first = self.any_value(op.dtypes if op.rule != "select" else self.stored)
        t = self.graph.type(first)
        word = self.pick(op.words) if op.words else None
        if op.rule == "convert":
            target = self.element([name for name in op.dtypes if name != t.element])
            self.emit(op.name, [first], [t.of(target)], word=word)
        elif op.rule == "select":
            self.emit(op.name, [self.value(t.of("i1")), first, self.value(t)], [t], word=word)
        elif op.rule in ("elementwise", "compare"):
            operands = [first] + [self.value(t) for _ in op.operands[1:]]
            order = self.rng.permutation(len(operands))
            result = t.of("i1") if op.rule == "compare" else t
            self.emit(op.name, [operands[i] for i in order], [result], word=word)
        else:
            raise Stuck

    def add_broadcast(self):
        source = self.any_value(self.table["broadcast"].dtypes)
        t = self.graph.type(source)
        shape, dims = [], []
        for size in t.shape:
            while self.chance(0.3) and len(shape) < 4:
                shape.append(self.pick(self.pool))
            dims.append(len(shape))
            shape.append(self.pick(self.pool) if size == Dim(1) and self.chance(0.7) else size)
        if self.chance(0.4) or not t.shape:
            shape.append(self.pick(self.pool))
        if not self.fits(shape):
            raise Stuck
        self.emit("broadcast", [source], [Type(t.element, shape)], dims=dims)

    def add_transpose(self):
        source = self.any_value(self.table["transpose"].dtypes)
        t = self.graph.type(source)
        perm = [int(axis) for axis in self.rng.permutation(len(t.shape))]
        self.emit("transpose", [source], [Type(t.element, [t.shape[a] for a in perm])], perm=perm)

    def add_reshape(self):
        source = self.any_value(self.table["reshape"].dtypes)
        t = self.graph.type(source)
        shape = list(t.shape)
        for _ in range(1 + int(self.rng.integers(2))):
            way, at = self.pick(["merge", "split", "insert", "drop"]), int(self.rng.integers(max(len(shape), 1)))
            if way == "insert" and len(shape) < 5:
                shape.insert(at, Dim(1))
            elif way == "drop" and at < len(shape) and shape[at] == Dim(1):
                del shape[at]
            elif way == "merge" and at + 1 < len(shape):
                shape[at : at + 2] = [shape[at] * shape[at + 1]]
            elif way == "split" and at < len(shape) and len(shape) < 5:
                coefficient, names = shape[at]
                divisors = [d for d in range(2, min(coefficient, 300)) if coefficient % d == 0]
                if len(names) > 1:
                    shape[at : at + 1] = [Dim(coefficient, names[:1]), Dim(1, names[1:])]
                elif divisors:
                    divisor = self.pick(divisors)
                    shape[at : at + 1] = [Dim(divisor), Dim(coefficient // divisor, names)]
        self.emit("reshape", [source], [Type(t.element, shape)])

    def axes(self, rank):
        count = int(self.rng.choice([0, 1, 2, rank], p=[0.03, 0.67, 0.2, 0.1])) if rank else 0
        return sorted(int(a) for a in self.rng.permutation(rank)[: min(count, rank)])

    def add_reduce(self):
        allowed = self.table["reduce"].dtypes
        combiner = self.pick(COMBINERS) if self.chance(0.3) else None
        if combiner:
            kinds = combiner.takes[0].split()
            allowed = [name for name in allowed if name in ELEMENTS and ELEMENTS[name].kind in kinds]
        source = self.any_value(allowed)
        t = self.graph.type(source)
        axes = self.axes(len(t.shape))
        operands = [source]
        for kind in combiner.takes[1:] if combiner else ():
            operands.append(self.value(t.of(kind if kind in ELEMENTS else t.element)))
        kept = [size for a, size in enumerate(t.shape) if a not in axes]
        results = []
        for operand in operands:
            element = self.graph.type(operand).e
            results.append(Type(element.accumulator.name if self.chance(0.4) else element.name, kept))
        if combiner:
            self.emit("reduce", operands, results, combiner=combiner, axes=axes, init=combiner.init)
        else:
            cut = {}
            if axes and self.chance(0.2) and not any(t.shape[a][1] for a in axes):
                cut["chunks"] = [self.pick([1, 2, 4, 16, 64]) for _ in axes]
                pieces = [Dim(-(-t.shape[a][0] // chunk)) for a, chunk in zip(axes, cut["chunks"])]
                results = [Type(results[0].element, pieces + kept)]
            self.emit("reduce", operands, results, word=self.pick(["sum", "sum", "max", "min"]), axes=axes, **cut)

    def add_matmul(self):
        allowed = [name for name in self.table["matmul"].dtypes if name in self.stored]
        if self.chance(0.7):
            first = self.existing(lambda t: t.element in allowed and len(t.shape) >= 2)
        else:
            shape = [self.pick(self.pool), self.pick(self.pool)]
            first = self.input(Type(self.element(allowed), shape if self.fits(shape) else [Dim(1), shape[1]]))
        t = self.graph.type(first)
        batch, (rows, columns) = t.shape[:-2], t.shape[-2:]
        kept = batch  # The other operand's batch axes may be missing or 1.
        if self.chance(0.3):
            kept = tuple(Dim(1) if self.chance(0.5) else size for size in batch)[int(self.rng.integers(len(batch) + 1)) :]
        other = self.pick(self.pool + [Dim(1), Dim(2), rows, columns])
        if self.chance(0.5):
            shapes, result, work = [t.shape, kept + (columns, other)], batch + (rows, other), t.shape + (other,)
            operands = [first, self.value(Type(t.element, shapes[1]))] if self.fits(shapes[1]) else None
        else:
            shape, result, work = kept + (other, rows), batch + (other, columns), t.shape + (other,)
            operands = [self.value(Type(t.element, shape)), first] if self.fits(shape) else None
        cut, contracted = {}, self.graph.type(operands[0]).shape[-1] if operands else None
        if operands and self.chance(0.2) and not contracted[1]:
            cut["chunks"] = [self.pick([1, 2, 4, 16, 64])]
            result = (Dim(-(-contracted[0] // cut["chunks"][0])), *result)
        if not operands or not self.fits(result) or self.count(work) > MATMUL_WORK:
            raise Stuck
        self.emit("matmul", operands, [Type(self.product_element(t.element), result)], **cut)

    def product_element(self, element):
        """Of a matmul's result: 8-bit floats have that of sums alone."""
        e = ELEMENTS[element]
        return e.accumulator.name if e.codes is not None or self.chance(0.4) else element

    def start_with_product(self):
        """Of 8 or 16 bits and large enough for tensor cores; what follows mostly has its rows and columns."""
        elements = [name for name in ("bf16", "bf16", "f16", "f16", "f8e4m3", "f8e5m2", "i8", "u8") if name in self.stored]
        if "matmul" not in self.structure or not elements:
            return
        rows, inner, columns = (Dim(self.pick(sizes)) for sizes in ([1, 3, 17, 64, 65], [64, 65, 72], [64, 65, 66, 72]))
        element = self.pick(elements)
        result = self.product_element(element)
        self.budget, self.favourite, self.pool = 6000, result, [rows, columns]
        operands = []
        for shape in ((rows, inner), (inner, columns)):
            if "transpose" in self.structure and self.chance(0.3):
                turned = self.input(Type(element, shape[::-1]))
                operands.append(self.emit("transpose", [turned], [Type(element, shape)], perm=[1, 0]))
            else:
                operands.append(self.input(Type(element, shape)))
        if self.chance(0.2):  # In pieces, which are added up.
            chunk, sums = self.pick([64, 128]), ELEMENTS[element].accumulator.name
            pieces = self.emit("matmul", operands, [Type(sums, (Dim(-(-inner[0] // chunk)), rows, columns))], chunks=[chunk])
            self.emit("reduce", [pieces], [Type(sums, (rows, columns))], word="sum", axes=[0])
        else:
            self.emit("matmul", operands, [Type(result, (rows, columns))])

    def add_slice(self):
        source = self.any_value(self.table["slice"].dtypes)
        t = self.graph.type(source)
        starts, limits, steps, shape = [], [], [], []
        for size in t.shape:
            start, limit, step = 0, size if size[1] else size[0], 1
            if not size[1] and self.chance(0.7):
                start, limit = sorted(int(end) for end in self.rng.integers(0, size[0] + 1, 2))
                step = self.pick([1, 1, 2, 3, 7])
            starts.append(start)
            limits.append(limit)
            steps.append(step)
            shape.append(size if size[1] else Dim(-(-(limit - start) // step)))
        self.emit("slice", [source], [Type(t.element, shape)], starts=starts, limits=limits, steps=steps)

    def add_pad(self):
        source = self.any_value(self.table["pad"].dtypes)
        t = self.graph.type(source)
        low, high = ([0 if size[1] else self.pick([0, 0, 1, 2, 5]) for size in t.shape] for _ in range(2))
        shape = [size if size[1] else Dim(size[0] + a + b) for size, a, b in zip(t.shape, low, high)]
        if not self.fits(shape):
            raise Stuck
        value = self.pick(special_values(t.e))
        self.emit("pad", [source], [Type(t.element, shape)], data=value, low=low, high=high, value=t.e.text(value))

    def add_concat(self):
        source = self.any_value(self.table["concat"].dtypes)
        t = self.graph.type(source)
        if not t.shape:
            raise Stuck
        axis = int(self.rng.integers(len(t.shape)))
        operands, total = [source], t.shape[axis]
        for _ in range(1 + int(self.rng.integers(2))):
            size = total if total[1] else self.pick([size for size in self.pool if not size[1]] + [Dim(1), t.shape[axis]])
            if total[1] and total != t.shape[axis]:
                break  # N and N are 2*N; more would be a sum.
            operands.append(self.value(Type(t.element, t.shape[:axis] + (t.shape[axis] if total[1] else size,) + t.shape[axis + 1 :])))
            total = Dim(2 * total[0], total[1]) if total[1] else Dim(total[0] + size[0])
        shape = t.shape[:axis] + (total,) + t.shape[axis + 1 :]
        if not self.fits(shape):
            raise Stuck
        order = self.rng.permutation(len(operands))
        self.emit("concat", [operands[i] for i in order], [Type(t.element, shape)], axis=axis)

    def add_gather(self):
        source = self.any_value(self.table["gather"].dtypes)
        t = self.graph.type(source)
        if not t.shape:
            raise Stuck
        axis = int(self.rng.integers(len(t.shape)))
        rows = self.value(Type(self.pick(["i32", "i64"]), [self.pick(self.pool) for _ in range(int(self.rng.integers(3)))]))
        shape = t.shape[:axis] + self.graph.type(rows).shape + t.shape[axis + 1 :]
        if not self.fits(shape):
            raise Stuck
        self.emit("gather", [source, rows], [Type(t.element, shape)], axis=axis)

    def add_iota(self):
        shape = self.shape() or (self.pick(self.pool),)
        self.emit("iota", [], [Type(self.pick(["i32", "i64"]), shape)], axis=int(self.rng.integers(len(shape))))

    def along_axis(self, op):
        source = self.any_value(self.table[op].dtypes)
        t = self.graph.type(source)
        if not t.shape:
            raise Stuck
        return source, t, int(self.rng.integers(len(t.shape)))

    def add_cumsum(self):
        source, t, axis = self.along_axis("cumsum")
        self.emit("cumsum", [source], [t], axis=axis)

    def add_softmax(self):
        source, t, axis = self.along_axis("softmax")
        self.emit("softmax", [source], [t], axis=axis)

    def add_argmax(self):
        source, t, axis = self.along_axis("argmax")
        self.emit("argmax", [source], [Type(self.pick(["i32", "i64"]), t.shape[:axis] + t.shape[axis + 1 :])], axis=axis)

    def add_mean(self):
        source = self.any_value(self.table["mean"].dtypes)
        t = self.graph.type(source)
        axes = self.axes(len(t.shape))
        element = t.e.accumulator.name if self.chance(0.4) else t.element
        self.emit("mean", [source], [Type(element, [size for a, size in enumerate(t.shape) if a not in axes])], axes=axes)

    def add_norm(self, op, parameters):
        source = self.any_value(self.table[op].dtypes)
        t = self.graph.type(source)
        axes = self.axes(len(t.shape))
        given = [self.value(Type(t.element, [t.shape[a] for a in axes])) for _ in range(int(self.rng.integers(parameters + 1)))]
        self.emit(op, [source, *given], [t], axes=axes, eps=self.pick([0.0, 1e-5, 1.0]))

    def add_layernorm(self):
        self.add_norm("layernorm", 2)

    def add_rmsnorm(self):
        self.add_norm("rmsnorm", 1)

    def choose_outputs(self):
        graph = self.graph
        used = {tuple(operand) for node in graph.nodes.values() for operand in node.operands}
        computed = [value for value in graph.values() if graph.nodes[value[0]].op != "input"]
        sinks = [value for value in computed if value not in used] or computed
        sinks = [value for value in sinks if self.chance(0.8)] or sinks[-1:]
        outputs = list(sinks)
        for probability, values in ((0.4, computed), (0.15, outputs), (0.08, graph.values())):
            while self.chance(probability) and len(outputs) < 12:
                outputs.append(self.pick(values))
        self.rng.shuffle(outputs)
        graph.outputs = [tuple(int(i) for i in value) for value in outputs]


def nested(data, element):
    if np.ndim(data) == 0:
        return element.text(data)
    return "[" + ", ".join(nested(row, element) for row in data) + "]"


def generate(table, stored, seed, index, only=None):
    """The graph of a seed and a number, with values for its inputs."""
    rng = np.random.default_rng([seed, index])
    generator = Generator(table, stored, rng, only)
    if np.random.default_rng([seed, index, 1]).random() < 0.04:
        generator.start_with_product()
    for _ in range(1 + int(rng.integers(3))):
        generator.input(Type(generator.element(generator.stored), generator.shape()))
    wanted = 1 + min(int(rng.geometric(1 / 7)), 60 if generator.budget < 1000 else 8)
    done = tries = 0
    while done < wanted and tries < 8 * wanted:
        tries += 1
        try:
            generator.step()
            done += 1
        except Stuck:
            continue
    generator.choose_outputs()
    graph = generator.graph.prune(keep_inputs=rng.random() < 0.1)
    for number in graph.inputs():
        node = graph.nodes[number]
        with np.errstate(all="ignore"):
            node.data = np.asarray(random_values(node.types[0].e, node.types[0].sizes(graph.bind), rng))
    used = {name for node in graph.nodes.values() for t in node.types for size in t.shape for name in size[1]}
    graph.bind = {name: value for name, value in graph.bind.items() if name in used}
    free = graph.free_names()
    graph.fixed = {name for name in graph.bind if name in free or rng.random() < 0.3}
    return graph
