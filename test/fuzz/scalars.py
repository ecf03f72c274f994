"""What element-wise ops give, from NumPy. A new row of the op table needs one line here.

EXACT ops give the same bits as NumPy, which rounds each once; on 16-bit floats they are computed in f32 and then rounded.
NEAR ops are within some units in the last place (on 16-bit floats: of f32, and then rounded) of the value in long double."""

import numpy as np

from elements import WIDE


def maximum(a, b):
    return np.where((a == 0) & (b == 0) if a.dtype.kind == "f" else False, a + b, np.maximum(a, b))


def minimum(a, b):
    return np.where((a == 0) & (b == 0) if a.dtype.kind == "f" else False, -(-a + -b), np.minimum(a, b))


def divide(a, b):
    """Integers towards zero; by 0 it is -1, all bits set, and the least by -1 is itself."""
    safe = np.where(b == 0, 1, b).astype(b.dtype)
    quotient = a // safe
    quotient = quotient + ((quotient * safe != a) & ((a < 0) != (safe < 0))).astype(a.dtype)
    if a.dtype.kind == "i":
        quotient = np.where(safe == -1, -a, quotient)
    return np.where(b == 0, np.array(-1).astype(a.dtype), quotient)


def shift(a, b, function, beyond):
    """The amount is unsigned; from the width on the result is `beyond`."""
    width, amount = 8 * a.dtype.itemsize, b.view(f"u{b.dtype.itemsize}")
    return np.where(amount >= width, beyond, function(a, np.where(amount >= width, 0, amount).astype(a.dtype))).astype(a.dtype)


def shift_right_unsigned(a, b):
    unsigned = f"u{a.dtype.itemsize}"
    return np.asarray(shift(a.view(unsigned), b.view(unsigned), np.right_shift, 0)).view(a.dtype)


def erf_parts(x):
    """erf and erfc of |x|, both with the relative accuracy of long double: a series of positive terms, a continued fraction from 1 on."""
    x = np.abs(x)
    small = np.minimum(x, 1)
    term = total = small
    for n in range(1, 40):
        term = term * (2 * small * small) / (2 * n + 1)
        total = total + term
    root = np.sqrt(4 * np.arctan(WIDE(1)))
    erf = 2 / root * np.exp(-small * small) * total
    large = np.clip(x, 1, 200)
    fraction = large
    for n in range(600, 0, -1):
        fraction = large + WIDE(n) / 2 / fraction
    erfc = np.exp(-large * large) / root / fraction
    erfc = np.where(np.isinf(x), 0, erfc)
    return np.where(np.isnan(x), x, np.where(x < 1, erf, 1 - erfc)), np.where(np.isnan(x), x, np.where(x < 1, 1 - erf, erfc))


def gelu(x):
    """x times the normal distribution function; in 1 - erf of small numbers nothing cancels that matters."""
    erf, erfc = erf_parts(x / np.sqrt(WIDE(2)))
    return limit_at_minus_infinity(x, x * np.where(x < 0, erfc, 1 + erf) / 2)


def gelu_tanh(x):
    inner = np.sqrt(2 / (4 * np.arctan(WIDE(1)))) * (x + WIDE("0.044715") * x**3)
    return limit_at_minus_infinity(x, x / (1 + np.exp(-2 * inner)))


def limit_at_minus_infinity(x, values):
    return np.where(np.isneginf(x), WIDE(-0.0), values)


EXACT = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b if a.dtype.kind == "f" else divide(a, b),
    "rem": lambda a, b: np.where(b == 0, a, a - divide(a, np.where(b == 0, 1, b).astype(b.dtype)) * b),
    "abs": np.abs,
    "not": lambda a: ~a,
    "sign": lambda a: np.where(a > 0, a.dtype.type(1), np.where(a < 0, np.array(-1).astype(a.dtype), a)),
    "clamp": lambda a, low, high: minimum(maximum(a, low), high),
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "shl": lambda a, b: shift(a, b, np.left_shift, 0),
    "shr_s": lambda a, b: shift(a, b, np.right_shift, np.where(a < 0, -1, 0)),
    "shr_u": shift_right_unsigned,
    "neg": lambda a: -a,
    "max": maximum,
    "min": minimum,
    "sqrt": np.sqrt,
    "rsqrt": lambda a: a.dtype.type(1) / np.sqrt(a),
    "relu": lambda a: maximum(a, np.zeros_like(a)),
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}

NEAR = {
    "exp": (np.exp, 1),
    "log": (np.log, 1),
    "exp2": (np.exp2, 1),
    "expm1": (np.expm1, 1),
    "log2": (np.log2, 1),
    "log1p": (np.log1p, 1),
    "tanh": (np.tanh, 1),
    "sigmoid": (lambda a: 1 / (1 + np.exp(-a)), 1),
    "silu": (lambda a: limit_at_minus_infinity(a, a / (1 + np.exp(-a))), 1),
    "erf": (lambda a: np.copysign(erf_parts(a)[0], a), 1),
    "gelu": (gelu, 4),  # minic's is within 3.14; the rest is the oracle's, as below.
    "gelu_tanh": (gelu_tanh, 2),  # One of them is the oracle's: an exponent of 700 has 2^-64 of itself.
    "sin": (np.sin, 1),
    "cos": (np.cos, 1),
    "pow": (np.power, 1),
}

TWICE_ROUNDED = {"rsqrt"}
"""Of the exact ones those that round on the way."""

# Nowhere decreasing or nowhere increasing in each operand, so that the corners of intervals bound the result.
MONOTONE = {
    "add", "sub", "mul", "div", "neg", "max", "min", "sqrt", "rsqrt", "relu", "exp", "log", "exp2", "expm1", "log2", "log1p", "tanh", "sigmoid",
    "erf", "floor", "ceil", "round", "sign", "clamp",
}

COMPARE = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}


class Exact:
    """These bits."""

    def __init__(self, values):
        self.values = np.asarray(values)

    def wrong(self, got, element):
        return element.differs(np.broadcast_to(self.values, got.shape).astype(element.work), got)

    def at(self, index):
        return str(self.values[index])


class Near:
    """Between two values (wide); where `low` is NaN, NaN; anything where `free`."""

    def __init__(self, low, high, free=False):
        self.low, self.high, self.free = np.asarray(low, WIDE), np.asarray(high, WIDE), np.broadcast_to(free, np.shape(low))
        self.plus_zero = False  # Where -0.0 is wrong.

    def wrong(self, got, element):
        value = got.astype(WIDE)
        beyond = element.is_float and (np.isposinf(value) & (self.high > element.largest) | np.isneginf(value) & (self.low < -element.largest))
        inside = (value >= self.low) & (value <= self.high) | beyond
        right = np.where(np.isnan(self.low), np.isnan(value), inside) & ~(self.plus_zero & np.signbit(value))
        return ~right & ~self.free

    def at(self, index):
        return "anything" if self.free[index] else f"{self.low[index]} to {self.high[index]}"


def near(true, units, element, least_error=0):
    """Within `units` of the accumulator's last place or `least_error`, then rounded to the element type."""
    error = np.maximum(units * element.accumulator.unit(true), least_error)
    low, high = true - error, true + error
    if element.is_narrow:
        hair = element.accumulator.unit(true) / 1024
        low, high = element.round_wide(low - hair).astype(WIDE), element.round_wide(high + hair).astype(WIDE)
    return Near(low, high)


def convert(values, source, target):
    """Rounds once; to integers truncates and saturates, NaN gives 0."""
    if target.kind == "bool":
        return values != 0
    if target.is_float:
        if source.is_float:
            return target.round(values)
        if target.name == "f64" or target.name == "f32":
            return values.astype(target.work)
        # Integers beyond 2^53 are beyond all 16-bit numbers' precision too: odd in the last place, they round as themselves.
        return target.round(int_to_odd(values))
    info = np.iinfo(target.work)
    if not source.is_float:
        if source.kind == "bool":
            return values.astype(target.work)
        return values.astype(target.work)
    wide = np.trunc(np.where(np.isnan(values), 0, values).astype(WIDE))
    return np.clip(wide, WIDE(info.min), WIDE(info.max)).astype(target.work)


def int_to_odd(values):
    """Integers as float64, those of more than 53 bits rounded to odd."""
    near_values = values.astype(np.float64)
    if values.dtype.itemsize < 8:
        return near_values
    wide = values.astype(WIDE)
    inexact = near_values.astype(WIDE) != wide
    even = (near_values.view(np.uint64) & np.uint64(1)) == 0
    towards = np.where(near_values.astype(WIDE) < wide, np.inf, -np.inf)
    return np.where(inexact & even, np.nextafter(near_values, towards), near_values)


def expected(node, operands, elements, result):
    """What an element-wise node gives on these operands, or None if NumPy is not asked."""
    if node.op == "compare":
        return Exact(COMPARE[node.word](*operands))
    if node.op == "select":
        return Exact(np.where(*operands))
    if node.op == "convert":
        return Exact(convert(operands[0], elements[0], result))
    if node.op in EXACT:
        values = [values.astype(np.float32) if element.is_narrow else values for values, element in zip(operands, elements)]
        values = EXACT[node.op](*values)
        return Exact(result.round(values) if result.is_float else values)
    if node.op in NEAR:
        function, units = NEAR[node.op]
        return near(function(*(values.astype(WIDE) for values in operands)), units, result)
    return None


def has_oracle(op):
    return op.rule in ("compare", "select", "convert") or op.name in EXACT or op.name in NEAR
