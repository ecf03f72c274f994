"""The shared library: where it is, its functions, and its errors as exceptions."""

from __future__ import annotations

import ctypes
import os
import pathlib
from ctypes import POINTER, Structure, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Iterator, Optional

API_MAJOR, API_MINOR = 1, 1
"""Of the C interface (minic-c/base.h) that this package is written for."""


class MinicError(Exception):
    """What minic refuses or what failed: `str(error)` is the whole text, as the command line prints it."""

    def __init__(self, code: str, message: str, fix: str = "", kind: str = "data") -> None:
        super().__init__(code, message, fix, kind)
        self.code = code
        """"E0602"; docs/errors.md lists all."""
        self.message = message
        """Everything there is to say: place, message, source line, notes."""
        self.fix = fix
        """What to do about it, or empty."""
        self.kind = kind
        """"data" (files, texts, tensors), "usage" (arguments) or "environment" (device, driver, memory)."""

    def __str__(self) -> str:
        return self.message


class Tensor(Structure):
    """MinicTensor."""

    _fields_ = [
        ("memory", c_uint64),
        ("shape", c_void_p),
        ("strides", c_void_p),
        ("dtype", c_int32),
        ("rank", c_int32),
        ("device_kind", c_int32),
        ("device_ordinal", c_int32),
    ]


class TensorSpec(Structure):
    """MinicTensorSpec."""

    _fields_ = [
        ("name", c_char_p),
        ("dims", POINTER(c_char_p)),
        ("sizes", POINTER(c_int64)),
        ("dtype", c_int32),
        ("rank", c_int32),
    ]


class _Sized(Structure):
    """A struct that begins with its own size."""

    def __init__(self, **fields: object) -> None:
        super().__init__(ctypes.sizeof(self), **fields)


class DeviceInfo(_Sized):
    """MinicDeviceInfo."""

    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("kind", c_int),
        ("ordinal", c_int32),
        ("compute_capability", c_int32),
    ]


class ArtifactInfo(_Sized):
    """MinicArtifactInfo."""

    _fields_ = [
        ("struct_size", c_size_t),
        ("graph", c_char_p),
        ("targets", c_char_p),
        ("numerics", c_char_p),
        ("launches", c_int64),
        ("warnings", c_char_p),
    ]


class Weight(Structure):
    """MinicWeight."""

    _fields_ = [("name", c_char_p), ("path", c_char_p), ("tensor", POINTER(Tensor))]


class Dim(Structure):
    """MinicDim."""

    _fields_ = [("name", c_char_p), ("value", c_int64)]


class CompileOptions(_Sized):
    """MinicCompileOptions."""

    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("target", c_char_p),
        ("device", c_void_p),
        ("numerics", c_char_p),
        ("mode", c_char_p),
        ("graph", c_char_p),
        ("dims", POINTER(Dim)),
        ("num_dims", c_size_t),
        ("strides", c_char_p),
        ("specializations", POINTER(c_char_p)),
        ("num_specializations", c_size_t),
        ("matmul", c_char_p),
        ("cache", c_void_p),
        ("schedules", c_char_p),
        ("tuned_for", c_char_p),
        ("customs", POINTER(c_char_p)),
        ("num_customs", c_size_t),
        ("line_info", c_int),
    ]


NOTICE = ctypes.CFUNCTYPE(None, c_void_p, c_char_p)


class CacheOptions(_Sized):
    """MinicCacheOptions."""

    _fields_ = [
        ("struct_size", c_size_t),
        ("use", c_char_p),
        ("directory", c_char_p),
        ("limit", c_uint64),
        ("notice", NOTICE),
        ("notice_context", c_void_p),
    ]


class CacheInfo(_Sized):
    """MinicCacheInfo."""

    _fields_ = [("struct_size", c_size_t), ("directory", c_char_p), ("writable", c_int32)]
    _fields_ += [(name, c_uint64) for name in ("entries", "bytes", "limit")]
    _fields_ += [(name, c_uint64) for name in ("hits", "misses", "kept", "dropped", "damaged", "evicted")]


class ShapeCounts(_Sized):
    """MinicShapeCounts."""

    _fields_ = [("struct_size", c_size_t)]
    _fields_ += [(name, c_uint64) for name in ("hits", "misses", "evictions", "compilations", "kept", "limit")]


_HANDLE, _RESULT = c_void_p, POINTER(c_void_p)
_SPECS = [_HANDLE, POINTER(POINTER(TensorSpec)), POINTER(c_size_t)]
_RUN = [c_void_p, c_size_t, c_void_p, c_size_t]

# Functions that return a MinicError *, with their parameters.
_FUNCTIONS = {
    "minic_device_open": [c_char_p, _RESULT],
    "minic_cuda_device_count": [POINTER(c_int)],
    "minic_device_info": [_HANDLE, POINTER(DeviceInfo)],
    "minic_device_destroy": [_HANDLE],
    "minic_device_use_cache": [_HANDLE, _HANDLE],
    "minic_cache_open": [POINTER(CacheOptions), _RESULT],
    "minic_cache_info": [_HANDLE, POINTER(CacheInfo)],
    "minic_cache_destroy": [_HANDLE],
    "minic_stream_create": [_HANDLE, _RESULT],
    "minic_stream_borrow": [_HANDLE, c_void_p, _RESULT],
    "minic_stream_handle": [_HANDLE, _RESULT],
    "minic_stream_synchronize": [_HANDLE],
    "minic_stream_wait": [_HANDLE, _HANDLE],
    "minic_stream_destroy": [_HANDLE],
    "minic_event_create": [_HANDLE, _RESULT],
    "minic_event_record": [_HANDLE, _HANDLE],
    "minic_event_synchronize": [_HANDLE],
    "minic_event_is_done": [_HANDLE, POINTER(c_int)],
    "minic_event_elapsed": [_HANDLE, _HANDLE, POINTER(c_double)],
    "minic_event_destroy": [_HANDLE],
    "minic_buffer_create": [_HANDLE, c_int32, c_int32, POINTER(c_int64), _RESULT],
    "minic_buffer_write": [_HANDLE, c_void_p, c_size_t],
    "minic_buffer_read": [_HANDLE, c_void_p, c_size_t],
    "minic_buffer_tensor": [_HANDLE, POINTER(Tensor)],
    "minic_buffer_dlpack": [_HANDLE, c_int, _RESULT],
    "minic_buffer_destroy": [_HANDLE],
    "minic_artifact_read": [c_char_p, _RESULT],
    "minic_artifact_save": [_HANDLE, c_char_p],
    "minic_artifact_inputs": _SPECS,
    "minic_artifact_results": _SPECS,
    "minic_artifact_info": [_HANDLE, POINTER(ArtifactInfo)],
    "minic_artifact_destroy": [_HANDLE],
    "minic_executable_load": [_HANDLE, _HANDLE, POINTER(Weight), c_size_t, _RESULT],
    "minic_executable_inputs": _SPECS,
    "minic_executable_results": _SPECS,
    "minic_executable_result_dims": [_HANDLE, c_void_p, c_size_t, POINTER(c_int64), c_size_t],
    "minic_executable_shape_counts": [_HANDLE, POINTER(ShapeCounts)],
    "minic_executable_limit_shapes": [_HANDLE, c_size_t],
    "minic_executable_allow_compilation": [_HANDLE, c_int],
    "minic_executable_specialize": [_HANDLE, c_char_p, c_size_t, POINTER(CompileOptions)],
    "minic_executable_run": [_HANDLE, _HANDLE] + _RUN,
    "minic_executable_run_host": [_HANDLE] + _RUN,
    "minic_executable_destroy": [_HANDLE],
    "minic_executable_capture": [_HANDLE] + _RUN + [_RESULT],
    "minic_captured_run_launch": [_HANDLE, _HANDLE],
    "minic_captured_run_destroy": [_HANDLE],
    "minic_text_destroy": [_HANDLE],
    "minic_compile_text": [c_char_p, c_size_t, POINTER(CompileOptions), _RESULT],
    "minic_emit_text": [c_char_p, c_size_t, c_char_p, POINTER(CompileOptions), _RESULT],
}
# The others: (result, parameters).
_QUERIES = {
    "minic_api_version": (c_uint32, []),
    "minic_version": (c_char_p, []),
    "minic_llvm_version": (c_char_p, []),
    "minic_error_kind": (c_int, [_HANDLE]),
    "minic_error_code": (c_char_p, [_HANDLE]),
    "minic_error_message": (c_char_p, [_HANDLE]),
    "minic_error_fix": (c_char_p, [_HANDLE]),
    "minic_error_destroy": (None, [_HANDLE]),
    "minic_text_data": (c_void_p, [_HANDLE, POINTER(c_size_t)]),
}


def _candidates() -> Iterator[pathlib.Path]:
    package = pathlib.Path(__file__).resolve().parent
    yield package / "lib" / "libminic.so"  # A wheel.
    yield package.parent.parent / "lib" / "libminic.so"  # A bundle: python/minic beside lib.


def _find() -> str:
    chosen = os.environ.get("MINIC_LIBRARY")
    if chosen:
        if not os.path.exists(chosen):
            raise ImportError(f"MINIC_LIBRARY names {chosen}, which is not there")
        return chosen
    tried = list(_candidates())
    for path in tried:
        if path.exists():
            return str(path)
    places = " or ".join(str(path) for path in tried)
    raise ImportError(f"there is no libminic.so: it is neither {places}; set MINIC_LIBRARY to its path")


def _load() -> ctypes.CDLL:
    path = _find()
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"{path} cannot be loaded: {error}") from None
    try:
        library.minic_api_version.restype = c_uint32
        version = library.minic_api_version()
    except AttributeError:
        raise ImportError(f"{path} has no C interface of minic") from None
    major, minor = version >> 16, version & 0xFFFF
    if major != API_MAJOR or minor < API_MINOR:
        raise ImportError(f"{path} has version {major}.{minor} of the C interface, this package needs {API_MAJOR}.{API_MINOR}")
    try:
        for name, parameters in _FUNCTIONS.items():
            function = getattr(library, name)
            function.restype, function.argtypes = c_void_p, parameters
        for name, (result, parameters) in _QUERIES.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, parameters
    except AttributeError as error:
        raise ImportError(f"{path} is not the whole of libminic: {error}") from None
    return library


lib = _load()

_KINDS = {1: "data", 2: "usage", 3: "environment"}


def check(error: Optional[int]) -> None:
    """Raises what a function of the library returned, if that is an error."""
    if not error:
        return
    texts = (lib.minic_error_code(error), lib.minic_error_message(error), lib.minic_error_fix(error))
    code, message, fix = (text.decode(errors="replace") for text in texts)
    kind = _KINDS.get(lib.minic_error_kind(error), "data")
    lib.minic_error_destroy(error)
    raise MinicError(code, message.rstrip("\n"), fix, kind)


class Handle:
    """A handle of the library, destroyed with the object or by `close`. A context manager that closes."""

    __slots__ = ("_as_parameter_", "_destroy", "_open", "__weakref__")

    def __init__(self, handle: c_void_p, destroy: "ctypes._NamedFuncPointer") -> None:
        self._as_parameter_ = handle.value
        self._destroy = destroy
        self._open = True

    def close(self) -> None:
        """Gives it back now; using it afterwards is an error."""
        if self._open:
            self._open = False
            check(self._destroy(self._as_parameter_))

    def __del__(self, forget=lib.minic_error_destroy) -> None:
        if getattr(self, "_open", False):
            self._open = False
            # In the child of a fork it is not ours to destroy, which is no news.
            forget(self._destroy(self._as_parameter_))

    def __enter__(self):
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def encode(text: object) -> Optional[bytes]:
    """Text or a path for C."""
    return None if text is None else os.fsencode(text)  # type: ignore[arg-type]
