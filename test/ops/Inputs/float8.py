"""Every code of the 8-bit floats to other types, and numbers of other types to them, in each way that minic runs graphs.

Expected values are from the definition of the formats, in fractions; they are compared with ml_dtypes where it is installed.
"""
import itertools
import json
import os
import struct
import subprocess
import sys
import tempfile
from fractions import Fraction

import numpy as np

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None

FORMATS = {"f8e4m3": (4, 3, False), "f8e5m2": (5, 2, True)}
N = 65536


def codes_of(name):
    """The value of each code: a fraction, "inf" or "nan"."""
    exponent_bits, mantissa_bits, infinity = FORMATS[name]
    bias, top = (1 << (exponent_bits - 1)) - 1, ((1 << exponent_bits) - 1) << mantissa_bits
    values = []
    for code in range(128):
        exponent, mantissa = code >> mantissa_bits, code % (1 << mantissa_bits)
        number = Fraction(mantissa + (exponent > 0) * (1 << mantissa_bits)) * Fraction(2) ** (max(exponent, 1) - bias - mantissa_bits)
        values.append(("inf" if code == top else "nan" if code > top else number) if infinity else "nan" if code == 127 else number)
    return values


class Rounder:
    """Numbers to codes: to the nearest, ties to the even code, beyond that to what follows the largest. The numbers and the middles between
    them are f64 exactly, and so is everything near them."""

    def __init__(self, name):
        numbers = [v for v in codes_of(name) if not isinstance(v, str)]
        middles = [(a + b) / 2 for a, b in zip(numbers, numbers[1:] + [2 * numbers[-1] - numbers[-2]])]
        assert all(Fraction(float(v)) == v for v in numbers + middles)
        self.numbers, self.middles = np.array(numbers, float), np.array(middles, float)
        self.infinity = FORMATS[name][2]

    def __call__(self, values):
        """-1 is any NaN."""
        values = np.asarray(values).astype(float)
        magnitude = np.abs(values)
        code = np.searchsorted(self.middles, magnitude)
        tie = self.middles[np.minimum(code, len(self.middles) - 1)] == magnitude
        code = code + (tie & (code % 2 == 1))
        nan = np.isnan(values) | ((code == len(self.numbers)) & (not self.infinity))
        return np.where(nan, -1, code + np.where(np.signbit(values), 128, 0))


def of_bf16(bits):
    return (np.asarray(bits, np.uint32) << 16).view(np.float32)


def interesting(name):
    """Numbers, half-way points and what lies next to these, of both signs."""
    rounder = Rounder(name)
    points = [*rounder.numbers, *rounder.middles]
    near = [float(np.nextafter(point, end)) for point in points for end in (0, np.inf)]
    values = points + near + [1e300, 5e-324, float("inf"), float("nan")]
    return values + [-value for value in values]


def inputs(rng):
    """By parameter: the array as a file has it, and the values."""
    half, bits = np.arange(N, dtype=np.uint16).view(np.float16), np.arange(N, dtype=np.uint16)
    single = (np.arange(N, dtype=np.uint64) * 65537 + 7).astype(np.uint32).view(np.float32)
    double = np.array(interesting("f8e4m3") + interesting("f8e5m2"))
    around = [value + step for value in (464, 248, 9 << 10, 57344, 61440, 1 << 62) for step in (-1, 0, 1)]
    integers = np.array([sign * value for value in around for sign in (1, -1)] + [-(1 << 63), (1 << 63) - 1], np.int64)
    integers = np.concatenate([integers, rng.integers(-500, 500, 200), rng.integers(-70000, 70000, 200)])
    with np.errstate(all="ignore"):
        return {"h": (half, half.astype(float)), "b": (bits, of_bf16(bits).astype(float)), "f": (single, single.astype(float)),
                "d": (double, double), "l": (integers, integers), "i": (integers.astype(np.int32), integers.astype(np.int32)),
                "s": (np.arange(-128, 128).astype(np.int8), np.arange(-128, 128)), "t": (np.array([False, True]), np.array([0, 1]))}


TYPES = {"h": "f16", "b": "bf16", "f": "f32", "d": "f64", "l": "i64", "i": "i32", "s": "i8", "t": "i1"}


def narrowing(given):
    """Converts each input to both types; results are in f16, which holds all numbers of both."""
    parameters = ", ".join(f"%{name}: tensor<{len(array)}x{TYPES[name]}>" for name, (array, _) in given.items())
    lines, results = [], []
    for (name, (array, _)), to in itertools.product(given.items(), FORMATS):
        lines += [f"  %{name}_{to} = convert %{name} : tensor<{len(array)}x{to}>",
                  f"  %y_{name}_{to} = convert %{name}_{to} : tensor<{len(array)}xf16>"]
        results.append((f"y_{name}_{to}", f"tensor<{len(array)}xf16>"))
    return graph("narrowing", parameters, lines, results)


WIDER = ("f16", "bf16", "f32", "f64", "i64", "i32", "i8", "u8", "i1")


def widening():
    parameters = ", ".join(f"%{name}: tensor<256x{name}>" for name in FORMATS)
    lines, results = [], []
    for name, to in itertools.product(FORMATS, WIDER):
        lines.append(f"  %y_{name}_{to} = convert %{name} : tensor<256x{to}>")
        results.append((f"y_{name}_{to}", f"tensor<256x{to}>"))
    return graph("widening", parameters, lines, results)


def graph(name, parameters, lines, results):
    stated, returned = ", ".join(f"{r}: {t}" for r, t in results), ", ".join("%" + r for r, _ in results)
    return f"minic 1\ngraph @{name}({parameters}) -> ({stated}) {{\n" + "\n".join(lines) + f"\n  return {returned}\n}}\n"


def run(folder, text, words, results):
    """The results by name, in every way."""
    source = os.path.join(folder, "g.ir")
    with open(source, "w") as file:
        file.write(text)
    outputs = {name: os.path.join(folder, f"{name}.npy") for name in results}
    words = words + [f"--output={name}={path}" for name, path in outputs.items()]
    ways = [["--device=cpu", "--poison"], ["--device=cpu", "--mode=eager", "--numerics=exact"]]
    for way in ways + ([["--device=cuda"], ["--device=cuda", "--mode=eager"]] if "MINIC_TEST_CUDA" in os.environ else []):
        subprocess.run(["minic", "run", source, *words, *way], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        yield " ".join(way), {name: np.load(path) for name, path in outputs.items()}


def same(what, got, expected):
    """The same bits, where NaNs are all one."""
    assert got.dtype == expected.dtype and got.shape == expected.shape, what
    floats = got.dtype.kind == "f"
    bits = f"u{got.dtype.itemsize}"
    wrong = (got.view(bits) != expected.view(bits)) & ~((got != got) & (expected != expected) if floats else False)
    at = np.flatnonzero(wrong)
    assert not at.size, f"{what}: element {at[0]} is {got[at[0]]}, expected {expected[at[0]]}, {at.size} wrong"


def values_of(name, codes):
    """f16 of codes."""
    table = [float(v) for v in codes_of(name)]
    table = np.array(table + [-v for v in table] + [float("nan")], np.float16)
    return table[np.asarray(codes)]


def check_narrowing(folder):
    given = inputs(np.random.default_rng(8))
    words = []
    for name, (array, _) in given.items():
        path = os.path.join(folder, f"{name}.npy")
        np.save(path, array)
        words.append(f"--input={name}={path}")
    expected = {}
    for (name, (_, values)), to in itertools.product(given.items(), FORMATS):
        expected[f"y_{name}_{to}"] = values_of(to, Rounder(to)(values))
        if ml_dtypes and name in "hbf":
            with np.errstate(all="ignore"):
                other = values.astype(np.float32).astype(getattr(ml_dtypes, "float8_e4m3fn" if to == "f8e4m3" else "float8_e5m2"))
            same(f"ml_dtypes, {name} to {to}", other.astype(np.float16), expected[f"y_{name}_{to}"])
    for way, got in run(folder, narrowing(given), words, expected):
        for name in expected:
            same(f"{name}, {way}", got[name], expected[name])


def check_widening(folder):
    header, data, expected = {}, b"", {}
    for at, name in enumerate(FORMATS):
        header[name] = {"dtype": "F8_" + name[2:].upper(), "shape": [256], "data_offsets": [256 * at, 256 * at + 256]}
        data += bytes(range(256))
        numbers = values_of(name, range(256)).astype(np.float64)
        for to in WIDER:
            if to == "i1":
                expected[f"y_{name}_{to}"] = numbers != 0
            elif to in ("f16", "f32", "f64"):
                expected[f"y_{name}_{to}"] = numbers.astype("f" + str(int(to[1:]) // 8))
            elif to == "bf16":
                expected[f"y_{name}_{to}"] = (numbers.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
            else:
                info = np.iinfo(f"{to[0]}{int(to[1:]) // 8}")
                clipped = [0 if v != v else max(info.min, min(info.max, int(v) if abs(v) < 1e9 else info.max if v > 0 else info.min)) for v in numbers]
                expected[f"y_{name}_{to}"] = np.array(clipped, info.dtype)
    path = os.path.join(folder, "codes.safetensors")
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    for way, got in run(folder, widening(), [f"--weights={path}"], expected):
        for name, want in expected.items():
            have = got[name]
            if name.endswith("bf16"):
                have, want = of_bf16(have), of_bf16(want)
            same(f"{name}, {way}", have, want)


def main():
    if not ml_dtypes:
        print("ml_dtypes is not installed: compared with the definition of the formats only")
    with tempfile.TemporaryDirectory() as folder:
        check_narrowing(folder)
        check_widening(folder)


if __name__ == "__main__":
    sys.exit(main())
