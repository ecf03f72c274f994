"""Runs a graph in every way that must give the same, and says what does not."""

import re
import warnings

import numpy as np

import bounds
import layouts
import minic
import scalars
import structure
from elements import ELEMENTS
from failure import Failure

LIMITS = {"E0606", "E0905"}
"""Codes that a valid graph may get."""


WAYS = ["eager alone", "all results", "names bound", "strides", "tile", "masked", "machine", "fused text", "graph text", "eager tile"]

SUMS = {"reduce", "matmul", "softmax", "layernorm", "rmsnorm", "mean", "cumsum"}


def refusal(error):
    """The same for the same cause in other graphs: the message without places, names and numbers."""
    if error.code in LIMITS:
        return "limit"
    message = str(error).splitlines()[0].partition("error: ")[2]
    return f"refused: {re.sub(r'%?[a-z]*[0-9]+', '#', message)[:90]} {error.code}"


class Check:
    """One graph in all its ways. `device`: beside the interpreter, "cuda" or None."""

    def __init__(self, graph, device=None, rng=None, wrong_op=None, kind=None):
        self.graph, self.device, self.rng, self.wrong_op = graph, device, rng or np.random.default_rng(0), wrong_op
        if wrong_op and "=" in wrong_op:
            self.wrong_op, self.mutation = None, [f" {op} " for op in wrong_op.split("=")]
        else:
            self.mutation = ["\0", ""]
        self.kind, self.exact = kind, None  # `kind`: of the failure that is looked for, which saves the other ways.
        self.inputs = [graph.nodes[n].types[0].e.to_memory(graph.nodes[n].data) for n in graph.inputs()]
        self.unchecked = set()

    def run(self, way, source, outputs, device="cpu", runs=1, strided=False, **options):
        """The results, as arrays of the work types; of several runs, which must agree. `strided`: tensors anywhere in memory."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                artifact = minic.compile(source, device=device, dims=options.pop("dims", None) or {}, **options)
            executable = artifact.load(device)
            types = [self.graph.type(value) for value in outputs]
            first = None
            for _ in range(runs):
                memory = [np.full(t.sizes(self.graph.bind), 7, t.e.to_memory(np.zeros((), t.e.work)).dtype) for t in types]
                if strided:
                    layouts.run(executable, self.inputs, memory, self.rng, way)
                else:
                    executable.run(self.inputs, memory)
                results = [t.e.from_memory(array) for t, array in zip(types, memory)]
                first = first or results
                self.compare(way + ", another run", outputs, results, first)
            return first
        except minic.MinicError as error:
            raise Failure(f"{way}: {refusal(error)}", str(error)) from None

    def compare(self, way, outputs, got, right):
        for i, value in enumerate(outputs):
            element = self.graph.type(value).e
            self.report(way, i, value, element.differs(got[i], right[i]), got[i], lambda index, i=i: str(right[i][index]))

    def report(self, way, i, value, wrong, got, expected):
        """Raises the first element that is wrong."""
        if not np.any(wrong):
            return
        index = tuple(int(a) for a in np.argwhere(wrong)[0]) if np.ndim(wrong) else ()
        node = self.graph.nodes[value[0]]
        where = f"result {i} (%v{value[0]}, {node.op}), element {list(index)}"
        raise Failure(way, f"{where}: {got[index]!s}, expected {expected(index)} ({int(np.sum(wrong))} of {np.size(wrong)} wrong)")

    def all(self):
        """Every way. Raises a Failure."""
        graph = self.graph
        dims = {name: graph.bind[name] for name in graph.fixed}
        text, values = graph.text().replace(*self.mutation), graph.values()
        computed = [value for value in values if graph.nodes[value[0]].op != "input"]
        got = self.run("eager", graph.text(computed), computed, dims=dims, mode="eager", numerics="exact")
        exact = dict(zip(computed, got))
        exact.update({(n, 0): graph.nodes[n].data for n in graph.inputs()})
        self.exact = exact
        self.check_ops(exact)
        right = [exact[value] for value in graph.outputs]

        ways = ["fused exact", str(self.rng.choice(WAYS)), "default"] + (["GPU exact", "GPU default", "GPU strides"] if self.device else [])
        for way in ways if not self.kind else [way for way in [*ways[:1], *WAYS, *ways[2:]] if self.kind.startswith(way)]:
            if way in WAYS:
                self.other_way(way, text, dims, right, computed, exact)
                continue
            device = self.device if way.startswith("GPU") else "cpu"
            if way.endswith("default"):
                self.check_default(text, dims, exact, device, way)
            else:
                runs = 2 if device == "cuda" else 1
                strided = way.endswith("strides")
                fused = self.run(way, text, graph.outputs, device, runs=runs, strided=strided, dims=dims, numerics="exact")
                self.compare(way, graph.outputs, fused, right)

    def other_way(self, way, text, dims, right, computed, exact):
        """Ways that cost more than they find, so that a graph goes one of them."""
        outputs = self.graph.outputs
        options = {"dims": dims, "numerics": "exact"}
        if way == "eager alone":
            options["mode"] = "eager"
        elif way == "all results":
            text, outputs, right = self.graph.text(computed), computed, [exact[value] for value in computed]
        elif way == "names bound":
            if self.sums_names():
                return
            options["dims"] = self.graph.bind
        elif way == "strides":
            options["strided"] = True
        else:
            mode, stage = ("eager", "tile") if way == "eager tile" else ("fused", way.split()[0])
            try:
                text = minic.emit(text, stage, dims=dims, numerics="exact", mode=mode)
            except minic.MinicError as error:
                raise Failure(f"{way}: {refusal(error)}", str(error)) from None
            options = {}
        got = self.run(way, text, outputs, **options)
        self.compare(way, outputs, got, right)

    def sums_names(self):
        """Whether floats are summed over a size that is a name: their order is that of unknown sizes, another than of the number's."""
        return any(node.op in SUMS and any(t.e.is_float for t in node.types)
                   and any(size[1] for value in node.operands for size in self.graph.type(value).shape)
                   for node in self.graph.nodes.values())

    def check_default(self, text, dims, exact, device, way):
        outputs = self.graph.outputs
        got = self.run(way, text, outputs, device, runs=2, dims=dims, numerics="default")
        with np.errstate(all="ignore"):
            intervals = bounds.propagate(self.graph, exact)
            for i, value in enumerate(outputs):
                interval = intervals[value]
                wrong = bounds.wrong(interval, exact[value], got[i], self.graph.type(value).e)
                self.report(way, i, value, wrong, got[i], lambda at, value=value, interval=interval: (
                    str(exact[value][at]) if interval.exact else f"{interval.low[at]} to {interval.high[at]}"))

    def check_ops(self, exact):
        """Each op against NumPy on its own operands."""
        graph = self.graph
        for number, node in graph.nodes.items():
            if node.op == "input":
                continue
            operands = [exact[tuple(value)] for value in node.operands]
            elements = [graph.type(value).e for value in node.operands]
            results = [t.e for t in node.types]
            with np.errstate(all="ignore"):
                expected = self.expect(node, operands, elements, results)
                if expected is None:
                    self.unchecked.add(node.op)
                    continue
                for i, e in enumerate(expected):
                    wrong = e.wrong(exact[number, i], results[i])
                    types = " ".join(str(element) for element in elements + results)
                    self.report(f"op {node.op} {types}", i, (number, i), wrong, exact[number, i], e.at)

    def expect(self, node, operands, elements, results):
        if node.op == self.wrong_op:
            return [scalars.Exact(np.ones(t.sizes(self.graph.bind), t.e.work)) for t in node.types]
        scalar = scalars.expected(node, operands, elements, results[0])
        if scalar is not None:
            return [scalar]
        sizes = [t.sizes(self.graph.bind) for t in node.types]
        return structure.expected(node, operands, elements, results, sizes)


def element_types(graph):
    return {t.element for node in graph.nodes.values() for t in node.types} & set(ELEMENTS)
