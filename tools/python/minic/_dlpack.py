"""DLPack: taking tensors of other libraries, and making capsules of our own."""

from __future__ import annotations

import ctypes
import sys
from ctypes import POINTER, Structure, c_char_p, c_int, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p
from typing import Any, Optional, Tuple

from . import _types

CPU, CUDA = 1, 2
_HOST_KINDS = {CPU, 3}  # kDLCPU, kDLCUDAHost


class _Tensor(Structure):
    _fields_ = [
        ("data", c_void_p),
        ("device_kind", c_int32),
        ("device_ordinal", c_int32),
        ("rank", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


class _Managed(Structure):
    _fields_ = [("tensor", _Tensor), ("context", c_void_p), ("deleter", c_void_p)]


class _ManagedVersioned(Structure):
    _fields_ = [
        ("major", c_uint32),
        ("minor", c_uint32),
        ("context", c_void_p),
        ("deleter", c_void_p),
        ("flags", c_uint64),
        ("tensor", _Tensor),
    ]


_DELETER = ctypes.CFUNCTYPE(None, c_void_p)
_FORMS = {b"dltensor_versioned": (_ManagedVersioned, b"used_dltensor_versioned"), b"dltensor": (_Managed, b"used_dltensor")}


def _python(name: str, result: Any, *parameters: Any) -> Any:
    return ctypes.PYFUNCTYPE(result, *parameters)((name, ctypes.pythonapi))


_is_valid = _python("PyCapsule_IsValid", c_int, c_void_p, c_char_p)
_pointer = _python("PyCapsule_GetPointer", c_void_p, c_void_p, c_char_p)
_rename = _python("PyCapsule_SetName", c_int, c_void_p, c_char_p)
_new = _python("PyCapsule_New", ctypes.py_object, c_void_p, c_char_p, c_void_p)


class Borrowed:
    """A tensor of another library, kept by it until this goes."""

    __slots__ = ("memory", "dtype", "shape", "strides", "kind", "ordinal", "_managed", "_deleter")

    def __init__(self, producer: Any, stream: Optional[int]) -> None:
        """`stream`: the CUstream that will use it (0: CUDA's default stream); the producer orders its work before that."""
        self._deleter = None
        kind, ordinal = producer.__dlpack_device__()
        self.kind, self.ordinal = (CPU if kind in _HOST_KINDS else CUDA if kind == 13 else int(kind)), int(ordinal)
        arguments = {"stream": (stream or 1) if self.kind == CUDA else None}
        try:
            capsule = producer.__dlpack__(max_version=(1, 0), **arguments)
        except TypeError:  # Made before DLPack 1.0.
            capsule = producer.__dlpack__(**arguments)
        self._take(capsule)

    def _take(self, capsule: Any) -> None:
        where = id(capsule)  # In CPython the object's address.
        for name, (form, used) in _FORMS.items():
            if _is_valid(where, name):
                break
        else:
            raise TypeError("__dlpack__ gave no DLPack capsule")
        self._managed = _pointer(where, name)
        managed = form.from_address(self._managed)
        if form is _ManagedVersioned and managed.major != 1:
            raise BufferError(f"a DLPack tensor of version {managed.major}.{managed.minor}, expected 1")
        _rename(where, used)
        self._deleter = managed.deleter
        tensor = managed.tensor
        try:
            if tensor.lanes != 1:
                raise KeyError
            self.dtype = _types.by_dlpack[tensor.code, tensor.bits]
        except KeyError:
            raise TypeError(f"minic has no element type for DLPack's ({tensor.code}, {tensor.bits}, {tensor.lanes})") from None
        rank = tensor.rank
        self.memory: int = (tensor.data or 0) + tensor.byte_offset
        self.shape: Tuple[int, ...] = tuple(tensor.shape[:rank]) if rank else ()
        self.strides: Optional[Tuple[int, ...]] = tuple(tensor.strides[:rank]) if rank and tensor.strides else None

    def __del__(self) -> None:
        if self._deleter:
            _DELETER(self._deleter)(self._managed)


@ctypes.PYFUNCTYPE(None, c_void_p)
def _drop_capsule(capsule: int) -> None:
    """Destroys what nobody took out of a capsule. The address, since the object is on its way out."""
    for name, (form, _) in _FORMS.items():
        if _is_valid(capsule, name):
            managed = _pointer(capsule, name)
            _DELETER(form.from_address(managed).deleter)(managed)


def capsule(managed: c_void_p, versioned: bool) -> Any:
    """A capsule for what minic_buffer_dlpack gave."""
    name = b"dltensor_versioned" if versioned else b"dltensor"
    try:
        return _new(managed, name, ctypes.cast(_drop_capsule, c_void_p))
    except BaseException:
        form = _ManagedVersioned if versioned else _Managed
        _DELETER(form.from_address(managed.value or 0).deleter)(managed)
        raise


def module_of(tensor: Any) -> str:
    """The library that a tensor is of."""
    return type(tensor).__module__.partition(".")[0]


def to_library(library: str, tensor: Any) -> Any:
    """The tensor as one of `library`; itself if that is not known to take DLPack."""
    if library in ("cupy", "torch"):
        return getattr(sys.modules[library], "from_dlpack")(tensor)
    if library in ("jax", "jaxlib"):
        import jax.dlpack

        return jax.dlpack.from_dlpack(tensor)
    return tensor
