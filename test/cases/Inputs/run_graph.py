"""Runs a graph of graphs.py on the interpreter and compares what it gives with what arithmetic says, bit for bit.

    run_graph.py SHAPE N [--minic PATH] [--stack KIB] [--exact] [--eager]
"""
import argparse
import json
import os
import resource
import struct
import subprocess
import sys
import tempfile

import graphs


def single(number):
    """As the f32 that it is printed for."""
    return struct.unpack("f", struct.pack("f", number))[0]


def flatten(data):
    return [number for part in data for number in flatten(part)] if isinstance(data, list) else [data]


def run(minic, graph, *flags, stack=None):
    """The numbers of each output; a failure of minic ends the program."""

    def limit():
        if stack:
            resource.setrlimit(resource.RLIMIT_STACK, (stack << 10, stack << 10))

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "graph.ir")
        with open(path, "w", encoding="utf-8") as file:
            file.write(graph.text)
        command = [minic, "run", path, "--device=cpu", "--json", "--full", *flags]
        for name, number in graph.inputs.items():
            command += ["--input", f"{name}=const:{number}"]
        done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limit)
    if done.returncode:
        sys.exit(f"minic run: exit code {done.returncode}: {done.stderr[:2000]}")
    return [flatten(output["data"]) for output in json.loads(done.stdout)["outputs"]]


def check(minic, shape, n, *flags, stack=None):
    graph = graphs.SHAPES[shape](n)
    results = run(minic, graph, *flags, stack=stack)
    if len(results) != len(graph.expected):
        sys.exit(f"{shape} {n}: {len(results)} outputs, expected {len(graph.expected)}")
    for i, (result, expected) in enumerate(zip(results, graph.expected)):
        if any(single(number) != single(expected) for number in result):
            sys.exit(f"{shape} {n}: output {i} is {result[:8]}, expected {expected} everywhere")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("shape", choices=graphs.SHAPES)
    parser.add_argument("n", type=int)
    parser.add_argument("--minic", default="minic")
    parser.add_argument("--stack", type=int, help="KiB")
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("--eager", action="store_true")
    args = parser.parse_args()
    flags = ["--numerics=exact"] * args.exact + ["--mode=eager"] * args.eager
    check(args.minic, args.shape, args.n, *flags, stack=args.stack)
