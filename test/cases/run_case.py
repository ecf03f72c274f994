#!/usr/bin/env python3
"""Runs a graph in every way that minic has and compares each result with what is expected.

    run_case.py GRAPH.ir [--graph NAME] [--input x=...]... --expect 'y=[...]'... [--rtol R] [--atol A] [--fold] [--dim N=4]...
                [--modes fused,eager] [--devices cpu,cuda]

GRAPH.ir is run fused and eager, in default and exact numerics, on the interpreter with poisoned memory, resumed from the tile and the
masked level, and on the GPU where there is one; --modes and --devices are the only ones of these. With --fold also with every --input written into the text as a constant. Without
tolerances values are compared bit for bit, but for the payload of NaNs. `--expect y=const:3` means 3 everywhere, and `y=nan` likewise.
"""

import argparse
import json
import math
import os
import re
import struct
import subprocess
import sys
import tempfile


def parse(text):
    """A number or nested lists of them."""
    text = re.sub(r"\binf\b", "Infinity", re.sub(r"\bnan\b", "NaN", text))
    return json.loads(re.sub(r"(?<![\d.\w])(-?)\.", r"\g<1>0.", text), parse_int=integer)


def integer(text):
    return -0.0 if text == "-0" else int(text)


def flat(value):
    return [leaf for entry in value for leaf in flat(entry)] if isinstance(value, list) else [value]


def number(leaf):
    return float(leaf) if isinstance(leaf, (str, int, float)) and not isinstance(leaf, bool) else int(leaf)


def rounded(value, dtype):
    form = {"f32": "f", "f16": "e", "bf16": "f"}.get(dtype)
    if not form or not math.isfinite(value):
        return value
    try:
        value = struct.unpack(form, struct.pack(form, value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    if dtype == "bf16":
        bits = struct.unpack("I", struct.pack("f", value))[0]
        bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
        value = struct.unpack("f", struct.pack("I", bits))[0]
    return value


def differs(got, want, options):
    if math.isnan(got) or math.isnan(want):
        return math.isnan(got) != math.isnan(want)
    if got == want:
        return options.rtol is None and math.copysign(1, got) != math.copysign(1, want)
    if math.isinf(got) or math.isinf(want) or (options.rtol is None and options.atol is None):
        return True
    return abs(got - want) > (options.atol or 0) + (options.rtol or 0) * abs(want)


def minic(*words, text=None):
    return subprocess.run(["minic", *words], input=text, capture_output=True, text=True, timeout=options.timeout)


def fail(what, done):
    sys.exit(f"{what}: exit code {done.returncode}\n{done.stderr}{done.stdout[:4000]}")


def check(what, done, expected):
    if done.returncode:
        fail(what, done)
    results = {entry["name"]: entry for entry in json.loads(done.stdout, parse_int=integer)["outputs"]}
    for name, want in expected.items():
        got = [number(leaf) for leaf in flat(results[name]["data"])]
        values = flat(want) if isinstance(want, list) else [want] * len(got)
        values = [number(leaf) for leaf in values]
        # Texts have the fewest digits that tell an element from others of its type.
        got, values = ([rounded(v, results[name]["dtype"]) for v in row] for row in (got, values))
        if len(got) != len(values):
            sys.exit(f"{what}: {name} has {len(got)} elements, expected {len(values)}")
        for i, (a, b) in enumerate(zip(got, values)):
            if differs(a, b, options):
                sys.exit(f"{what}: element {i} of {name} is {a!r}, expected {b!r}")


def folded(text, graph, inputs):
    """The text with the graph's inputs written in as constants."""
    start = re.search(r"graph @%s\(" % graph if graph else r"graph @\w+\(", text)
    for name, value in inputs.items():
        found = re.compile(r"%%%s: (tensor<[^>]*>),? ?" % name).search(text, start.end())
        brace = re.compile(r"\{[ \t]*\n").search(text, found.end())
        constant = f"  %{name} = constant {value} : {found[1]}\n"
        text = text[:found.start()] + text[found.end():brace.end()] + constant + text[brace.end():]
    return re.sub(r", \)", ")", text)


def main():
    with open(options.file) as file:
        text = file.read()
    inputs = dict(entry.split("=", 1) for entry in options.input)
    expected = {name: parse(value.removeprefix("const:")) for name, value in (entry.split("=", 1) for entry in options.expect)}
    words = ["--json", *(f"--dim={dim}" for dim in options.dim)]
    if options.graph:
        words.append(f"--graph={options.graph}")
    given = [f"--input={name}={value}" for name, value in inputs.items()]
    devices = options.devices or ["cpu"] + (["cuda"] if "MINIC_TEST_CUDA" in os.environ else [])
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "case.ir")
        sources = {source: given}
        with open(source, "w") as file:
            file.write(text)
        if options.fold:
            constant = os.path.join(folder, "folded.ir")
            with open(constant, "w") as file:
                file.write(folded(text, options.graph, inputs))
            sources[constant] = []
        for path, arguments in sources.items():
            for mode in options.modes:
                for numerics in "default", "exact":
                    flags = [f"--mode={mode}", f"--numerics={numerics}"]
                    for device in devices:
                        what = f"{os.path.basename(path)} {mode} {numerics} {device}"
                        poison = ["--poison"] if device == "cpu" else []
                        check(what, minic("run", path, f"--device={device}", *flags, *poison, *words, *arguments), expected)
                        count += 1
            for level in ("tile", "masked") if "cpu" in devices else ():
                dump = minic("compile", path, f"--emit={level}", *(word for word in words if word.startswith("--dim")))
                if dump.returncode:
                    fail(f"compile to {level}", dump)
                rest = [word for word in words if not word.startswith("--dim")]
                check(f"resumed from {level}", minic("run", "-", "--device=cpu", *rest, *arguments, text=dump.stdout), expected)
                count += 1
    print(f"{count} ways agree")


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("file")
parser.add_argument("--graph")
parser.add_argument("--input", action="append", default=[])
parser.add_argument("--expect", action="append", required=True)
parser.add_argument("--dim", action="append", default=[])
parser.add_argument("--modes", type=lambda text: text.split(","), default=["fused", "eager"])
parser.add_argument("--devices", type=lambda text: text.split(","))
parser.add_argument("--rtol", type=float)
parser.add_argument("--atol", type=float)
parser.add_argument("--fold", action="store_true")
parser.add_argument("--timeout", type=float, default=300)
options = parser.parse_args()
main()
