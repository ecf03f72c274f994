#!/usr/bin/env python3
"""Functions on every f32 there is, on the GPU, against torch's f64: the f32 column of docs/numerics.md.

    PYTHONPATH=... python3 test/gpu/check_f32.py [FUNCTION]...

Prints the largest distance to the true value in units in the last place, and where it is. Fails where it is above what was found before. `div` goes over
2^28 pairs of random bits. f64 is off by a few of its own units, 2^-29 of those counted here.
"""
import math
import sys

import torch

import minic

CHUNK = 1 << 26
LIMITS = {"exp": 0.9, "exp2": 0.87, "expm1": 0.87, "log": 0.95, "log2": 0.91, "log1p": 0.98, "tanh": 0.79, "sigmoid": 0.77, "silu": 0.81,
          "erf": 1.0, "gelu": 3.15, "gelu_tanh": 0.81, "sin": 0.83, "cos": 0.84, "sqrt": 0.5, "rsqrt": 1.5, "div": 0.5}


def normal_tail(x):
    """x times the probability of a normal variable below x; -0.0 at -inf."""
    return torch.where(x == -math.inf, torch.full_like(x, -0.0), x * 0.5 * torch.special.erfc(-x / math.sqrt(2)))


def sigmoid(x):
    e = torch.exp(-x.abs())
    return torch.where(x < 0, e, torch.ones_like(e)) / (1 + e)


def gelu_tanh(x):
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
    return torch.where(x == -math.inf, torch.full_like(x, -0.0), x * sigmoid(2 * inner))


TRUE = {"exp": torch.exp, "exp2": torch.exp2, "expm1": torch.expm1, "log": torch.log, "log2": torch.log2, "log1p": torch.log1p,
        "tanh": torch.tanh, "sigmoid": sigmoid, "silu": lambda x: torch.where(x == -math.inf, torch.full_like(x, -0.0), x * sigmoid(x)),
        "erf": torch.erf, "gelu": normal_tail, "gelu_tanh": gelu_tanh, "sin": torch.sin, "cos": torch.cos, "sqrt": torch.sqrt,
        "rsqrt": lambda x: 1 / torch.sqrt(x), "div": lambda x, y: x / y}


def distances(got, true):
    """As tools/accuracy.py counts: infinity is the power of two after the largest number; NaN and the sign of zero must be right."""
    got = got.double()
    exponent = torch.frexp(true)[1].clamp(min=-125)
    unit = torch.ldexp(torch.ones_like(true), exponent - 24)
    beyond = 2.0**128
    apart = (got.clamp(-beyond, beyond) - true.clamp(-beyond, beyond)).abs() / unit
    rounds_to_inf = got.isinf() & (true.abs() >= (2 - 2.0**-24) * 2.0**127) & (got.signbit() == true.signbit())
    same = (got.isnan() & true.isnan()) | rounds_to_inf
    wrong = (got.isnan() != true.isnan()) | ((got == 0) & (got.signbit() != true.signbit()))
    apart = torch.where(wrong, torch.full_like(apart, math.inf), apart)
    return torch.where(same, torch.zeros_like(apart), apart)


def chunks(function):
    if function == "div":
        random = torch.Generator("cuda").manual_seed(1)
        for _ in range(4):
            yield [torch.randint(-(1 << 31), 1 << 31, (CHUNK,), generator=random, device="cuda").int().view(torch.float32)
                   for _ in range(2)]
        return
    for start in range(-(1 << 31), 1 << 31, CHUNK):
        yield [torch.arange(start, start + CHUNK, device="cuda").int().view(torch.float32)]


def worst(function):
    names = ["x", "y"][: 2 if function == "div" else 1]
    params = ", ".join(f"%{name}: tensor<Nxf32>" for name in names)
    text = f"graph @f({params}) -> (r: tensor<Nxf32>) {{\n  %r = {function} {', '.join('%' + n for n in names)} : tensor<Nxf32>\n  return %r\n}}"
    run = minic.compile(text, device="cuda", numerics="default").load("cuda")
    largest, where = 0.0, None
    for operands in chunks(function):
        apart = distances(run(*operands), TRUE[function](*[x.double() for x in operands]))
        most = float(apart.max())
        if most > largest or where is None:
            largest, where = most, [float(x[int(apart.argmax())]) for x in operands]
    return largest, where


def main(functions):
    bad = 0
    for function in functions or TRUE:
        largest, where = worst(function)
        good = largest <= LIMITS[function]
        bad += not good
        print(f"{function:10} {largest:8.4f} at {', '.join(map(repr, where))}{'' if good else '  ABOVE ' + str(LIMITS[function])}", flush=True)
    return bad > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
