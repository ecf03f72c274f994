#!/usr/bin/env python3
"""How far element-wise functions are from the true values: the table of docs/numerics.md.

    PYTHONPATH=tools/python tools/accuracy.py    # all f16, bf16 and f32 values, on a GPU if there is one
    ... tools/accuracy.py --device=cpu --stride=997 --functions=tanh,erf

Each function runs as a graph of its own on every value of the type (f32: every STRIDE-th bit pattern), or on 2^24 / STRIDE pairs or
f64 values drawn from a fixed seed. The true value is that of NumPy or `math` in f64; for f64 that of NumPy's 80-bit floats, or where
it has none, of mpmath at 2000 operands. Prints the largest distance in units in the last place, and where it is; exit code 1 if one is
above what docs/numerics.md promises.
"""
import argparse
import collections
import math
import multiprocessing
import os
import sys

import numpy as np

import minic

SQRT2 = math.sqrt(2)


def scalar_function(function):
    return lambda x: np.frompyfunc(function, 1, 1)(x).astype(np.float64)


erf, erfc = scalar_function(math.erf), scalar_function(math.erfc)


def sigmoid(x):
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


def times(x, probability):
    """x p, where p falls to 0 faster than x grows; -0.0 at -inf."""
    return np.where(x == -np.inf, x.dtype.type(-0.0), np.where(x == -np.inf, 0, x) * probability)


def gelu_tanh(x):
    near = np.clip(x, -1000, 1000)
    return times(x, sigmoid(2 * np.sqrt(x.dtype.type(2) / x.dtype.type(math.pi)) * (near + near.dtype.type(0.044715) * near**3)))


# In the type of the operand, f64 or 80-bit floats. Those of WITHOUT_WIDE exist in f64 only.
TRUE = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log1p": np.log1p,
    "tanh": np.tanh, "sigmoid": sigmoid, "silu": lambda x: times(x, sigmoid(x)),
    "erf": erf, "gelu": lambda x: times(x, erfc(-x / SQRT2) / 2), "gelu_tanh": gelu_tanh,
    "sin": np.sin, "cos": np.cos, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x),
    "div": np.divide, "pow": np.power,
}
WITHOUT_WIDE = ("erf", "gelu", "gelu_tanh")  # Their true values above are good to f64 only.
PAIRS = ("div", "pow")
BOUNDS = {"gelu": 4, "sqrt": 0.5, "div": 0.5, "rsqrt": 1.5}  # Of others 1.
DIGITS = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}
LEAST_EXPONENT = {"f16": -13, "bf16": -125, "f32": -125, "f64": -1021}  # Of normal numbers, as frexp counts.
LARGEST = {"f16": 65504.0, "bf16": 3.3895313892515355e38, "f32": float(np.finfo("f4").max), "f64": np.finfo("f8").max}


def mpmath_true(function, operands):
    import mpmath

    mpmath.mp.prec = 160
    # Past 100 both gelus are x, below -100 they are 0.
    forms = {
        "erf": mpmath.erf,
        "gelu": lambda x: x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2,
        "gelu_tanh": lambda x: x / (1 + mpmath.exp(-2 * mpmath.sqrt(2 / mpmath.pi) * (x + mpmath.mpf("0.044715") * x**3))),
    }
    return [forms[function](mpmath.mpf(float(np.clip(x, -100, 100)))) + max(float(x) - 100, 0) * (function != "erf") for x in operands]


def every(dtype, begin, count, stride):
    """The values whose bits are STRIDE times the numbers from `begin` on, as the array that the graph takes."""
    bits = (np.arange(begin, begin + count, dtype=np.uint64) * np.uint64(stride)).astype(np.uint32 if dtype == "f32" else np.uint16)
    return bits if dtype == "bf16" else bits.view(np.float32 if dtype == "f32" else np.float16)


def drawn(random, dtype, count):
    """Random values, half of all sizes, half of moderate ones, where most functions do something."""
    least = LEAST_EXPONENT[dtype] - 1
    sizes = np.ldexp(random.uniform(-2, 2, count), random.integers(least, -least, count))
    numbers = np.where(random.integers(0, 2, count) == 1, sizes, random.uniform(-8, 8, count))
    if dtype == "bf16":
        return (numbers.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return numbers.astype({"f16": np.float16, "f32": np.float32, "f64": np.float64}[dtype])


def as_f64(dtype, array):
    if dtype == "bf16":
        return (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return array.astype(np.float64)


def distances(dtype, result, true):
    """In units in the last place at the true value, where infinity counts as the power of two that comes after the largest number;
    infinite where NaN or the sign of zero differ."""
    exponents = np.maximum(np.frexp(true)[1], LEAST_EXPONENT[dtype])
    unit = np.ldexp(true.dtype.type(1), exponents - DIGITS[dtype])
    beyond = np.ldexp(true.dtype.type(1), np.frexp(LARGEST[dtype])[1])
    apart = np.abs(np.clip(result, -beyond, beyond) - np.clip(true, -beyond, beyond)) / unit
    rounds_to_inf = np.isinf(result) & (np.abs(true) >= LARGEST[dtype] * (1 + 2.0 ** -DIGITS[dtype]))
    same = (np.isnan(result) & np.isnan(true)) | (rounds_to_inf & (np.signbit(result) == np.signbit(true)))
    other = (np.isnan(result) != np.isnan(true)) | ((result == 0) & (np.signbit(result) != np.signbit(true)))
    return np.where(same, 0, np.where(other, np.inf, apart)).astype(np.float64)


def worst_of(job):
    dtype, function, operands, result = job
    np.seterr(all="ignore")
    operands = [as_f64(dtype, x) for x in operands]
    if dtype == "f64" and function in WITHOUT_WIDE:
        true = mpmath_true(function, operands[0])
        apart = []
        for y, t in zip(result, true):
            unit = 2.0 ** (max(math.frexp(float(t))[1], LEAST_EXPONENT["f64"]) - 53)
            apart.append(float(abs(float(y) - t) / unit))
        apart = np.array(apart)
    else:
        wide = np.longdouble if dtype == "f64" else np.float64
        apart = distances(dtype, as_f64(dtype, result).astype(wide), TRUE[function](*[x.astype(wide) for x in operands]))
    at = int(np.argmax(apart))
    return float(apart[at]), [float(x[at]) for x in operands]


def chunks(function, dtype, stride):
    """Lists of operands, for one run each."""
    chunk = 1 << 22
    if function in PAIRS or dtype == "f64":
        random = np.random.default_rng(1)
        total = 2000 if dtype == "f64" and function in WITHOUT_WIDE else max((1 << 24) // stride, 4096)
        for begin in range(0, total, chunk):
            operands = [drawn(random, dtype, min(chunk, total - begin)) for _ in range(2 if function in PAIRS else 1)]
            if function == "pow" and dtype != "bf16":
                operands[0] = np.abs(operands[0])
            yield operands
        return
    count, step = ((1 << 32) // stride, stride) if dtype == "f32" else (1 << 16, 1)
    for begin in range(0, count, chunk):
        yield [every(dtype, begin, min(chunk, count - begin), step)]


def measure(function, dtype, device, stride, pool, parallel):
    names = ["x", "y"] if function in PAIRS else ["x"]
    tensor = f"tensor<Nx{dtype}>"
    text = f"graph @f({', '.join(f'%{n}: {tensor}' for n in names)}) -> (r: {tensor}) {{\n"
    text += f"  %r = {function} {', '.join('%' + n for n in names)} : {tensor}\n  return %r\n}}\n"
    # Default numerics let an exp of bf16 be 0 below 2^-126 (docs/numerics.md, "default").
    numerics = "exact" if (function, dtype) == ("exp", "bf16") else "default"
    executable = minic.compile(text, device=device, numerics=numerics).load(device)
    found, pending = [], collections.deque()
    for operands in chunks(function, dtype, stride):
        pending.append(pool.apply_async(worst_of, ((dtype, function, operands, np.asarray(executable(*operands))),)))
        if len(pending) >= parallel:
            found.append(pending.popleft().get())
    found += [job.get() for job in pending]
    return max(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--stride", type=int, default=1, help="of f32 bit patterns")
    parser.add_argument("--types", default="f16,bf16,f32,f64")
    parser.add_argument("--functions", default=",".join(TRUE))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    functions, types = arguments.functions.split(","), arguments.types.split(",")
    if unknown := [f for f in functions if f not in TRUE] + [t for t in types if t not in DIGITS]:
        parser.error(f"unknown: {', '.join(unknown)}")
    np.seterr(all="ignore")  # Operands are drawn up to infinity.
    # Before the device is opened: a forked process has no use for it.
    with multiprocessing.Pool(arguments.jobs) as pool:
        print("| function |" + "".join(f" {t} |" for t in types) + "\n|---|" + "---|" * len(types))
        wrong = False
        for function in functions:
            cells, bound = [], BOUNDS.get(function, 1)
            for dtype in types:
                worst, at = measure(function, dtype, arguments.device, arguments.stride, pool, 2 * arguments.jobs)
                wrong |= worst > bound * (1 + 1e-6)
                cells.append(f"{worst:.3f} at {', '.join(f'{x:.9g}' for x in at)}")
            print(f"| {function} | " + " | ".join(cells) + " |", flush=True)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
