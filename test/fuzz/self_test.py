"""The fuzzer finds planted faults and makes them small, and its arithmetic is that of the standards."""

import json
import pathlib
import re
import subprocess
import sys

import numpy as np

import bounds
import scalars
import structure
from elements import ELEMENTS, WIDE, add_to_odd

FOLDER = pathlib.Path(__file__).resolve().parent


def planted(fault, kind, ops, *more):
    """A fault that is planted must be found under its name, and its graph have at most `ops` ops."""
    command = [sys.executable, "-B", FOLDER, "--plant", fault, "--kinds", "1", "--json", "--reduce-seconds", "20", *more]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1, f"{fault}: exit code {done.returncode}\n{done.stderr}"
    failures = json.loads(done.stdout.splitlines()[-1])["failures"]
    assert any(name.startswith(kind) for name in failures), f"{fault}: found as {failures}"
    tests = done.stderr.split("\n// RUN: ")[1:]
    assert tests, f"{fault}: nothing was written as a test\n{done.stderr}"
    found = min(len(re.findall(r"^  %v", test, re.M)) for test in tests)
    assert found <= ops, f"{fault}: the reduced graph has {found} ops, expected at most {ops}\n{done.stderr}"


def bits(values, element):
    return [int(value) for value in ELEMENTS[element].to_memory(np.asarray(values))]


@np.errstate(all="ignore")
def rounding():
    bf16, f16 = ELEMENTS["bf16"], ELEMENTS["f16"]
    f32 = np.array([0x7F7FFFFF, 0x3F808000, 0x3F818000, 0x3F808001, 0x80000001], np.uint32).view(np.float32)
    assert bits(bf16.round(f32), "bf16") == [0x7F80, 0x3F80, 0x3F82, 0x3F81, 0x8000]
    assert np.isnan(bf16.round(np.array([0x7F800001, 0x7FFFFFFF], np.uint32).view(np.float32))).all()
    # 1 + 2^-8 + 2^-40 lies above the middle of two bf16 numbers; through f32 it would be the middle, and go down.
    assert bf16.round(np.array([1 + 2.0**-8 + 2.0**-40]))[0] == 1 + 2.0**-7
    assert list(f16.round(np.array([65519.996, 65520.0]))) == [65504.0, np.inf]
    # 1 + 2^-24 is a tie in f32, and what is added decides it, however small.
    total = add_to_odd(np.array([1 + 2.0**-24, 1 + 2.0**-24]), np.array([2.0**-90, -(2.0**-90)])).astype(np.float32)
    assert list(total) == [np.float32(1 + 2.0**-23), np.float32(1)]


def converting():
    f32, i32 = ELEMENTS["f32"], ELEMENTS["i32"]
    values = np.array([np.nan, np.inf, -np.inf, 3e9, -3e9, 2147483520, -2147483648, 1.9, -1.9], np.float32)
    right = [0, 2147483647, -2147483648, 2147483647, -2147483648, 2147483520, -2147483648, 1, -1]
    assert list(scalars.convert(values, f32, i32)) == right
    assert list(scalars.maximum(np.float32([-0.0, 0.0, np.nan]), np.float32([0.0, -0.0, 1])).view(np.uint32)[:2]) == [0, 0]


def chains():
    ones = np.ones((1, 4096), np.float32)
    assert structure.matmul_chain(ones, ones.T)[0, 0] == 4096
    # A chain of fused multiply-adds from 1 by 2^-25 never moves; a sum of the products first would.
    row = np.float32([[1] + [2.0**-25] * 8])
    assert structure.matmul_chain(row, np.ones((9, 1), np.float32))[0, 0] == 1


def intervals():
    f16 = ELEMENTS["f16"]
    narrow = bounds.Interval([1.0], [1.001])
    grown = bounds.settle(*bounds.corners(lambda a: a * 3, [narrow]), WIDE(0), f16)
    assert grown.low[0] < 3 and 3.003 < grown.high[0] < 3.01
    assert bounds.wrong(grown, None, np.float16([3.1]), f16)[0] and not bounds.wrong(grown, None, np.float16([3.002]), f16)[0]


def main():
    for test in (rounding, converting, chains, intervals):
        test()
    planted("max", "op max", 1, "--only", "max,convert,broadcast,add")
    planted("reduce", "op reduce", 1, "--only", "reduce,add,mul")
    planted("sub=add", "fused exact", 1, "--only", "sub,exp,reduce")
    print("planted faults were found")


if __name__ == "__main__":
    main()
