"""Element types, under all the names they go by."""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple, Tuple, Union


class DType(NamedTuple):
    name: str
    """As the IR spells it."""
    number: int
    """MinicDType."""
    size: int
    """Bytes of an element."""
    numpy: str
    torch: str
    dlpack: Tuple[int, int]
    """Code and bits."""


_ALL = [
    DType("f64", 1, 8, "float64", "float64", (2, 64)),
    DType("f32", 2, 4, "float32", "float32", (2, 32)),
    DType("f16", 3, 2, "float16", "float16", (2, 16)),
    DType("bf16", 4, 2, "bfloat16", "bfloat16", (4, 16)),
    DType("i64", 5, 8, "int64", "int64", (0, 64)),
    DType("i32", 6, 4, "int32", "int32", (0, 32)),
    DType("i1", 7, 1, "bool", "bool", (6, 8)),
    DType("i8", 9, 1, "int8", "int8", (0, 8)),
    DType("u8", 10, 1, "uint8", "uint8", (1, 8)),
    DType("f8e4m3", 11, 1, "float8_e4m3fn", "float8_e4m3fn", (10, 8)),
    DType("f8e5m2", 12, 1, "float8_e5m2", "float8_e5m2", (12, 8)),
]
_BITS = {"bf16": "uint16", "f8e4m3": "uint8", "f8e5m2": "uint8"}
"""What holds the bits of types that NumPy has only with ml_dtypes."""
by_name = {dtype.name: dtype for dtype in _ALL}
by_number = {dtype.number: dtype for dtype in _ALL}
by_numpy = {dtype.numpy: dtype for dtype in _ALL}
by_torch = {"torch." + dtype.torch: dtype for dtype in _ALL}
by_dlpack = {dtype.dlpack: dtype for dtype in _ALL}

Shape = Tuple[Union[int, str], ...]


class TensorSpec(NamedTuple):
    """What a graph takes or gives. Sizes that are only known at run time are text: "N", "4*N"."""

    name: str
    dtype: str
    shape: Shape

    def __str__(self) -> str:
        return f"{self.name}: tensor<{''.join(f'{size}x' for size in self.shape)}{self.dtype}>"


def numpy_dtype(dtype: DType) -> Any:
    """NumPy's type; for those that it has not, that of ml_dtypes if it is installed, else the bits as unsigned integers."""
    numpy = importlib.import_module("numpy")
    if dtype.name not in _BITS:
        return numpy.dtype(dtype.numpy)
    try:
        return numpy.dtype(getattr(importlib.import_module("ml_dtypes"), dtype.numpy))
    except ImportError:
        return numpy.dtype(_BITS[dtype.name])


def from_numpy_dtype(given: Any, expected: str = "") -> DType:
    """The type of a NumPy array's elements; unsigned integers are the bits of a type that NumPy has not, where that is expected."""
    if _BITS.get(expected) == given.name:
        return by_name[expected]
    try:
        return by_numpy[given.name]
    except KeyError:
        raise TypeError(f"minic has no element type for NumPy's {given.name}") from None
