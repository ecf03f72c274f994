"""Element types as NumPy sees them: memory form, rounding, comparison of bits, and values to try."""

import numpy as np

WIDE = np.longdouble
"""What expected values are computed in where they are not rounded like minic's."""


class Element:
    """An element type. Values are kept as arrays of `work`: NumPy's own type, for bf16 and 8-bit floats float32 with their values."""

    def __init__(self, name, work, kind, digits=0, least=0, size=0):
        self.name, self.work, self.kind = name, np.dtype(work), kind
        self.digits, self.least = digits, least  # Of floats: bits of the significand, exponent of the least denormal.
        self.size = size or self.work.itemsize

    def __repr__(self):
        return self.name

    is_float = property(lambda self: self.kind == "float")
    is_int = property(lambda self: self.kind in "int uint")
    is_narrow = property(lambda self: self.is_float and self.size == 2)

    @property
    def accumulator(self):
        """What sums of it are computed in, and may be given in."""
        return ELEMENTS["f32" if self.is_float and self.size < 4 else "i32" if self.size == 1 and self.is_int else self.name]

    @property
    def largest(self):
        named = {"f16": 65504.0, "bf16": float.fromhex("0x1.fep127"), "f8e4m3": 448.0, "f8e5m2": 57344.0}
        return named.get(self.name) or np.finfo(self.work).max

    @property
    def codes(self):
        """What the codes of an 8-bit float stand for, else None."""
        return FLOAT8.get(self.name)

    def round(self, values):
        """To this type from float16, float32 or float64, once, to nearest even."""
        values = np.asarray(values)
        if self.codes is not None:
            return float8_of(values.astype(np.float64), self.codes)
        if self.name != "bf16":
            return np.asarray(values.astype(self.work))
        return bf16_of_f32(f32_to_odd(values) if values.dtype == np.float64 else values.astype(np.float32))

    def round_wide(self, values):
        """As `round`, of longdoubles. May be off where two roundings differ from one, by one unit."""
        return self.round(np.asarray(values).astype(np.float64))

    def unit(self, values):
        """The unit in the last place at longdoubles."""
        exponent = np.frexp(np.abs(values))[1].astype(np.int64) - self.digits
        exponent = np.where(np.isfinite(values) & (values != 0), np.maximum(exponent, self.least), self.least)
        return np.ldexp(WIDE(1), exponent)

    def to_memory(self, values):
        values = np.asarray(values, order="C")
        if self.codes is not None:
            code = np.searchsorted(self.codes[:128], np.abs(values))  # NaN comes last.
            return np.asarray(code + np.where(np.signbit(values), 128, 0)).astype(np.uint8)
        if self.name != "bf16":
            return values
        return np.asarray(values.view(np.uint32) >> np.uint32(16)).astype(np.uint16)

    def from_memory(self, array):
        if self.codes is not None:
            return self.codes[np.asarray(array).view(np.uint8)]
        if self.name != "bf16":
            return array
        return np.asarray(np.asarray(array, np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)

    def differs(self, a, b):
        """Where the bits of two arrays differ; any NaN equals any NaN."""
        bits = np.dtype(f"u{self.work.itemsize}")
        different = np.ascontiguousarray(a).view(bits) != np.ascontiguousarray(b).view(bits)
        different = different.reshape(np.shape(a))
        return different & ~(np.isnan(a) & np.isnan(b)) if self.is_float else different

    def text(self, value):
        """A literal of it."""
        if self.kind == "bool":
            return "true" if value else "false"
        if self.is_int:
            return str(int(value))
        return str(self.work.type(value))


ELEMENTS = {
    element.name: element
    for element in (
        Element("f64", np.float64, "float", 53, -1074),
        Element("f32", np.float32, "float", 24, -149),
        Element("f16", np.float16, "float", 11, -24),
        Element("bf16", np.float32, "float", 8, -133, 2),
        Element("f8e4m3", np.float32, "float", 4, -9, 1),
        Element("f8e5m2", np.float32, "float", 3, -16, 1),
        Element("i64", np.int64, "int"),
        Element("i32", np.int32, "int"),
        Element("i8", np.int8, "int"),
        Element("u8", np.uint8, "uint"),
        Element("i1", np.bool_, "bool"),
    )
}


def float8_codes(exponent_bits, mantissa_bits, infinity):
    """The value of each code, by the definition of the format."""
    code = np.arange(128)
    exponent, mantissa = code >> mantissa_bits, code & ((1 << mantissa_bits) - 1)
    bias = (1 << (exponent_bits - 1)) - 1
    values = np.ldexp(mantissa + np.where(exponent > 0, 1 << mantissa_bits, 0), np.maximum(exponent, 1) - bias - mantissa_bits)
    first = code[-1] >> mantissa_bits << mantissa_bits  # Of the greatest exponent.
    values = np.where(code > first if infinity else code == 127, np.nan, values)
    values = np.where(infinity & (code == first), np.inf, values).astype(np.float32)
    return np.concatenate([values, -values])


FLOAT8 = {"f8e4m3": float8_codes(4, 3, False), "f8e5m2": float8_codes(5, 2, True)}


def float8_of(values, codes):
    """float64 rounded to the nearest of `codes`, ties to the even code; beyond half a step above the largest it is the code after that."""
    finite = codes[:128][np.isfinite(codes[:128])].astype(np.float64)
    middles = finite + np.diff(finite, append=2 * finite[-1] - finite[-2]) / 2
    magnitude = np.abs(values)
    code = np.searchsorted(middles, magnitude)
    tie = middles[np.minimum(code, len(middles) - 1)] == magnitude
    rounded = codes[code + (tie & (code % 2 == 1))]
    return np.copysign(np.where(np.isnan(values), np.float32(np.nan), rounded), values).astype(np.float32)


def bf16_of_f32(values):
    """Rounded to nearest even, still as float32."""
    bits = np.asarray(values, np.float32).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    result = np.asarray(rounded.astype(np.uint32)).view(np.float32)
    return np.where(np.isnan(values), np.float32(np.nan), result)


def f32_to_odd(values):
    """float64 to float32 such that a second rounding, to fewer bits, gives what one would have given."""
    near = values.astype(np.float32)
    exact = near.astype(np.float64) == values
    even = (near.view(np.uint32) & 1) == 0
    up = np.where(near.astype(np.float64) < values, np.float32(np.inf), np.float32(-np.inf))
    adjusted = np.nextafter(near, up)
    keep = exact | ~even | ~np.isfinite(values) | ~np.isfinite(near)
    return np.where(keep, near, adjusted).astype(np.float32)


def add_to_odd(a, b):
    """a + b in float64, rounded such that rounding it to float32 is the only rounding of the sum."""
    total = a + b
    back = total - a
    error = (a - (total - back)) + (b - back)
    inexact = np.isfinite(error) & (error != 0) & np.isfinite(total)
    even = (np.asarray(total).view(np.uint64) & np.uint64(1)) == 0
    towards = np.where(error > 0, np.inf, -np.inf)
    return np.where(inexact & even, np.nextafter(total, towards), total)


def special_values(element):
    """Those that break things."""
    if element.kind == "bool":
        return np.array([False, True])
    if element.is_int:
        info = np.iinfo(element.work)
        near = [0, 1, 2, 3, 7, 31, 32, 33, 63, 64, info.max, info.max - 1, info.min, info.min + 1]
        negative = [-1, -2, -7] if info.min else []
        return np.array(near + negative, element.work)
    one = np.ldexp(1.0, 1 - element.digits)
    values = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 3.0, 1.0 + one, 1.0 - one / 2, np.pi, -100.0, 88.72, 104.0, 11.0, 11.5]
    values += [element.largest, -element.largest, np.inf, -np.inf, np.nan]
    values += [np.ldexp(1.0, element.least), -np.ldexp(3.0, element.least), np.ldexp(1.0, element.least + element.digits - 1)]
    values += [2147483520.0, 2147483648.0, -2147483648.0, 65519.0, 65520.0, 1e-40, 1e30, 4194304.5]
    with np.errstate(all="ignore"):
        return element.round(np.array(values))


def random_values(element, shape, rng):
    """Values of one flavour, drawn at random."""
    count = int(np.prod(shape, dtype=np.int64))
    special = special_values(element)
    if element.kind == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    flavour = rng.choice(["plain", "small", "few", "bits", "special", "seasoned"], p=[0.4, 0.2, 0.1, 0.1, 0.08, 0.12])
    if flavour == "few":
        return special_few(element, shape, rng)
    if flavour == "special":
        return rng.choice(special, shape).astype(element.work)
    if flavour == "bits":
        return random_bits(element, count, rng).reshape(shape)
    if element.is_int:
        values = rng.integers(-9 if element.kind == "int" else 0, 10, shape).astype(element.work)
        if flavour == "plain" and element.work.itemsize > 1:
            values = rng.integers(-100000, 100000, shape).astype(element.work)
    elif flavour == "small":
        values = element.round(rng.integers(-8, 9, shape).astype(np.float64))
    else:
        scale = 2.0 ** rng.integers(-6, 6)
        values = element.round(rng.standard_normal(shape) * scale)
    if flavour == "seasoned" and count:
        where = rng.random(shape) < rng.choice([0.5 / count, 0.1])
        values = np.where(where, rng.choice(special, shape), values).astype(element.work)
    return values


def special_few(element, shape, rng):
    """All the same, or two values."""
    pool = element.round(rng.integers(0 if element.kind == "uint" else -4, 5, 2).astype(np.float64))
    return rng.choice(pool, shape).astype(element.work)


def random_bits(element, count, rng):
    """Any bit pattern."""
    data = rng.bytes(count * element.size)
    if element.name == "bf16" or element.codes is not None:
        return element.from_memory(np.frombuffer(data, f"u{element.size}"))
    return np.frombuffer(data, element.work).copy()
