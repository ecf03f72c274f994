"""Graphs as the fuzzer keeps them, and as minic's text."""

import copy
import math

from elements import ELEMENTS


class Dim(tuple):
    """A size: (coefficient, names in order). Equal sizes are equal tuples."""

    def __new__(cls, coefficient, names=()):
        return super().__new__(cls, (int(coefficient) if not names or coefficient else 0, tuple(sorted(names)) if coefficient else ()))

    def __reduce__(self):
        return Dim, tuple(self)

    def value(self, bind):
        return self[0] * math.prod(bind[name] for name in self[1])

    def __mul__(self, other):
        return Dim(self[0] * other[0], self[1] + other[1])

    def __str__(self):
        coefficient, names = self
        return "*".join(([str(coefficient)] if coefficient != 1 or not names else []) + list(names))


class Type:
    def __init__(self, element, shape):
        self.element, self.shape = element, tuple(shape)

    def __eq__(self, other):
        return (self.element, self.shape) == (other.element, other.shape)

    def __hash__(self):
        return hash((self.element, self.shape))

    def __str__(self):
        sizes = (f"({size})" if "*" in str(size) else str(size) for size in self.shape)
        return f"tensor<{''.join(size + 'x' for size in sizes)}{self.element}>"

    e = property(lambda self: ELEMENTS[self.element])

    def sizes(self, bind):
        return tuple(size.value(bind) for size in self.shape)

    def of(self, element):
        return Type(element, self.shape)


class Node:
    """An op or, as `op == "input"`, an input. `operands` are (node, result) by number; `attrs` are kept as Python values."""

    def __init__(self, op, operands=(), types=(), word=None, combiner=None, data=None, **attrs):
        self.op, self.operands, self.types, self.word = op, list(operands), list(types), word
        self.attrs, self.combiner, self.data = attrs, combiner, data


class Graph:
    """Nodes in program order by number, outputs as (node, result), and values of the names of sizes."""

    def __init__(self):
        self.nodes, self.outputs, self.bind = {}, [], {}
        self.next = 0

    def add(self, node):
        number, self.next = self.next, self.next + 1
        self.nodes[number] = node
        return number

    def type(self, value):
        return self.nodes[value[0]].types[value[1]]

    def inputs(self):
        return [number for number, node in self.nodes.items() if node.op == "input"]

    def values(self):
        return [(number, i) for number, node in self.nodes.items() for i in range(len(node.types))]

    def copy(self):
        other = copy.copy(self)
        other.nodes = {number: copy.copy(node) for number, node in self.nodes.items()}
        other.outputs, other.bind = list(self.outputs), dict(self.bind)
        return other

    def prune(self, keep_inputs=False):
        """Without what no output needs."""
        needed, work = set(), [value[0] for value in self.outputs]
        while work:
            number = work.pop()
            if number not in needed:
                needed.add(number)
                work.extend(operand[0] for operand in self.nodes[number].operands)
        self.nodes = {n: node for n, node in self.nodes.items() if n in needed or (keep_inputs and node.op == "input")}
        return self

    def free_names(self):
        """Names of sizes that no input's shape gives alone, so that they have to be bound when it is compiled."""
        given = {d[1][0] for n in self.inputs() for d in self.nodes[n].types[0].shape if d[0] == 1 and len(d[1]) == 1}
        used = {name for node in self.nodes.values() for t in node.types for d in t.shape for name in d[1]}
        return used - given

    def text(self, outputs=None, name="g"):
        outputs = self.outputs if outputs is None else outputs
        params = ", ".join(f"%v{n}: {self.nodes[n].types[0]}" for n in self.inputs())
        results = ", ".join(f"r{i}: {self.type(value)}" for i, value in enumerate(outputs))
        lines = [f"graph @{name}({params}) -> ({results}) {{"]
        lines += [f"  {self._op_text(n)}" for n, node in self.nodes.items() if node.op != "input"]
        returned = ", ".join(self._name(value) for value in outputs)
        return "\n".join(lines + [f"  return {returned}", "}"]) + "\n"

    def _name(self, value):
        number, i = value
        return f"%v{number}" + (f"_{i}" if len(self.nodes[number].types) > 1 else "")

    def _op_text(self, number):
        node = self.nodes[number]
        results = ", ".join(self._name((number, i)) for i in range(len(node.types)))
        text = f"{results} = {node.op}"
        if node.word is not None:
            text += f" {node.word}"
        arguments = [self._name(operand) for operand in node.operands]
        arguments += [f"{key} = {_attr_text(value)}" for key, value in node.attrs.items()]
        text += (" " + ", ".join(arguments)) if arguments else ""
        if node.combiner is not None:
            text += " " + node.combiner.region([self.type(operand).e.accumulator.name for operand in node.operands])
        return text + " : " + ", ".join(map(str, node.types))


def _attr_text(value):
    return "[" + ", ".join(map(_attr_text, value)) + "]" if isinstance(value, (list, tuple)) and not isinstance(value, Dim) else str(value)
