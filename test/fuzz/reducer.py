"""Makes a failing graph small: fewer outputs, fewer ops, smaller sizes, plainer values, as long as the same promise is broken."""

import time

import numpy as np

from graphs import Dim, Node, Type


def reduce_graph(graph, fails, seconds):
    """`fails(graph)`: whether the graph still fails in the same way. Gives the smallest one found in the time."""
    end = time.monotonic() + seconds
    progress = True
    while progress:
        progress = False
        for step in (fewer_outputs, ops_to_inputs, bypass, no_names, smaller_sizes, plainer_values):
            while (smaller := _first(step(graph), fails, end)) is not None:
                graph, progress = smaller, True
    return graph


def _first(candidates, fails, end):
    for candidate in candidates:
        if time.monotonic() > end:
            return None
        if fails(candidate):
            return candidate
    return None


def _with_outputs(graph, outputs):
    other = graph.copy()
    other.outputs = list(outputs)
    return other.prune()


def fewer_outputs(graph):
    """One alone, any value alone, then without one."""
    if len(graph.outputs) > 1:
        for value in graph.outputs:
            yield _with_outputs(graph, [value])
        for i in range(len(graph.outputs)):
            yield _with_outputs(graph, graph.outputs[:i] + graph.outputs[i + 1 :])
    elif graph.outputs[0][0] != next(reversed(graph.nodes)) or len(graph.nodes) > 3:
        for value in graph.values():
            if graph.nodes[value[0]].op != "input" and value != graph.outputs[0]:
                yield _with_outputs(graph, [value])


def _cut(graph, number):
    """Values of a node, as one run gives them, for an input in its place."""
    other = graph.copy()
    node = other.nodes[number]
    data = graph.values_seen[number, 0]
    other.nodes[number] = Node("input", types=node.types, data=np.array(data))
    return other.prune()


def ops_to_inputs(graph):
    if not getattr(graph, "values_seen", None):
        return
    for number in reversed(list(graph.nodes)):
        node = graph.nodes[number]
        if node.op != "input" and len(node.types) == 1 and (number, 0) in graph.values_seen and (number, 0) not in graph.outputs:
            yield _cut(graph, number)


def bypass(graph):
    """An operand, or another value of the type, instead of an op's result."""
    for number in reversed(list(graph.nodes)):
        node = graph.nodes[number]
        for i, t in enumerate(node.types):
            earlier = [tuple(value) for value in node.operands]
            earlier += [value for value in graph.values() if value[0] < number][:6]
            for value in earlier:
                if graph.type(value) == t and value != (number, i):
                    other = graph.copy()
                    for user in other.nodes.values():
                        user.operands = [value if tuple(operand) == (number, i) else operand for operand in user.operands]
                    other.outputs = [value if output == (number, i) else output for output in other.outputs]
                    yield other.prune()


def _resized(graph, change):
    """With each size changed, inputs cut to what is left."""
    other = graph.copy()
    for number, node in other.nodes.items():
        node.types = [Type(t.element, [change(size) for size in t.shape]) for t in node.types]
        if node.op == "input" or (node.op == "constant" and np.ndim(node.data)):
            sizes = node.types[0].sizes(other.bind)
            if node.op == "constant":
                return None
            node.data = np.array(node.data[tuple(slice(size) for size in sizes)])
            if node.data.shape != sizes:
                return None
    other.values_seen = None
    return other.prune()


def no_names(graph):
    for name in list(graph.bind):
        value = graph.bind[name]

        def change(size, name=name, value=value):
            return Dim(size[0] * value ** size[1].count(name), [n for n in size[1] if n != name])

        other = _resized(graph, change)
        if other:
            other.bind.pop(name)
            other.fixed = other.fixed - {name}
            yield other
        if name in graph.fixed:
            other = graph.copy()
            other.fixed = graph.fixed - {name}
            yield other


def smaller_sizes(graph):
    sizes = {size for node in graph.nodes.values() for t in node.types for size in t.shape}
    for size in sorted((size for size in sizes if not size[1] and size[0] > 1), key=lambda size: -size[0]):
        value = size[0]
        for smaller in sorted({1, 2, 3, value // 2, value - 1} & set(range(1, value))):
            other = _resized(graph, lambda s, size=size, smaller=smaller: Dim(smaller) if s == size else s)
            if other:
                yield other
    for name, value in graph.bind.items():
        for smaller in sorted({0, 1, 2, 3, value // 2, value - 1} & set(range(value))):
            other = graph.copy()
            other.bind = {**graph.bind, name: smaller}
            other = _resized(other, lambda size: size)
            if other:
                yield other


def plainer_values(graph):
    for number in graph.inputs():
        node = graph.nodes[number]
        data = np.asarray(node.data)
        if data.size == 0:
            continue
        for plain in (np.zeros_like(data), np.ones_like(data)):
            if not np.array_equal(data, plain):
                yield _with_data(graph, number, plain)
        flat = data.reshape(-1)
        plain = np.isin(flat, np.array([0, 1]).astype(data.dtype))
        if plain.all():
            continue
        if flat.size > 1:
            for part in np.array_split(np.arange(flat.size), min(flat.size, 4)):
                if not plain[part].all():
                    changed = flat.copy()
                    changed[part] = 1
                    yield _with_data(graph, number, changed.reshape(data.shape))
        if flat.size <= 64 and data.dtype.kind == "f":
            with np.errstate(all="ignore"):
                rounded = np.where(np.isfinite(flat) & (np.abs(flat) < 1e6), np.round(flat), flat).astype(data.dtype)
            if not np.array_equal(rounded, flat, equal_nan=True):
                yield _with_data(graph, number, rounded.reshape(data.shape))


def _with_data(graph, number, data):
    other = graph.copy()
    other.nodes[number].data = np.asarray(data)
    other.values_seen = None
    return other
