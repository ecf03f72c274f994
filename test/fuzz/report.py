"""Failures as tests, and the summary."""

import numpy as np

from generator import generate
from table import read_table


def regenerate(job, only):
    table, stored = read_table()
    return generate(table, stored, *job, only)


def literal(values, element):
    if np.ndim(values) == 0:
        return element.text(values)
    return "[" + ",".join(literal(row, element) for row in values) + "]"


def test_text(graph, kind, text, seen, job):
    """A lit test: the command, what the interpreter gave op by op where the exact numerics are the measure, and the graph."""
    words = ["minic run %s --device=cpu --numerics=exact --full"]
    for number in graph.inputs():
        element = graph.nodes[number].types[0].e
        value = literal(graph.nodes[number].data, element)
        sizes = graph.nodes[number].types[0].sizes(graph.bind)
        words.append(f"--input 'v{number}={value}'" if 0 not in sizes and len(value) < 4000 else f"--input v{number}=random:1")
    words += [f"--dim {name}={value}" for name, value in graph.bind.items()]
    lines = [f"// {kind}", *(f"// {line}" for line in text.splitlines()), f"// Found by seed {job[0]}, index {job[1]}."]
    lines.append("// RUN: " + " ".join(words) + " | FileCheck %s")
    for i, value in enumerate(graph.outputs):
        if seen and tuple(value) in seen and np.size(seen[value]) < 100:
            t = graph.type(value)
            sizes = "".join(f"{size}x" for size in t.sizes(graph.bind))
            lines.append(f"// Eager: r{i}: tensor<{sizes}{t.element}> = {literal(seen[value], t.e)}")
    return "\n".join(lines) + "\n" + graph.text()


def line(summary):
    failures = sum(summary["failures"].values())
    rate = summary["graphs"] / max(summary["seconds"], 1e-9)
    text = f"{summary['graphs']} graphs of seed {summary['seed']} from {summary['first']} on, in {summary['seconds']} s ({rate:.0f} a second): "
    text += f"{failures} failures" + "".join(f"\n  {count} x {kind}" for kind, count in summary["failures"].items())
    text += f"\nops: {' '.join(summary['ops'])}\ntypes: {' '.join(summary['types'])}"
    if summary["without oracle"]:
        text += f"\nnot compared with NumPy: {' '.join(summary['without oracle'])}"
    return text
