"""Tensors in device memory."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int64, c_void_p
from typing import Any, Optional, Sequence, Tuple, Union

from . import _dlpack, _library, _types
from ._device import Device, Stream, open_device, stream_handle
from ._library import Handle, check, lib


class _Buffer(Handle):
    __slots__ = ()


class Tensor:
    """A tensor in the memory of a device. Dense and row-major, but for one that is borrowed from another library.

    Memory of its own is given back in the order of `stream`: work on another stream that uses it must be waited for first."""

    __slots__ = ("device", "dtype", "shape", "strides", "stream", "data_ptr", "_buffer", "_lender", "_key", "__weakref__")

    def __init__(
        self, shape: Sequence[int], dtype: str = "f32", device: Union[str, Device] = "auto", *, stream: Any = None
    ) -> None:
        """With undefined values. `stream`: where it will be used; None: CUDA's default stream."""
        self.device = open_device(device)
        self.stream = stream if isinstance(stream, Stream) else self.device.borrow(stream_handle(stream or 0))
        handle, dims = c_void_p(), tuple(int(size) for size in shape)
        element = _dtype(dtype)
        check(lib.minic_buffer_create(self.stream, element.number, len(dims), (c_int64 * len(dims))(*dims), byref(handle)))
        self._buffer: Optional[_Buffer] = _Buffer(handle, lib.minic_buffer_destroy)
        self._lender: Optional[Tuple[_dlpack.Borrowed, Any]] = None
        described = _library.Tensor()
        check(lib.minic_buffer_tensor(self._buffer, byref(described)))
        self._set(described.memory, element.name, dims, None)

    def _set(self, memory: int, dtype: str, shape: Tuple[int, ...], strides: Optional[Tuple[int, ...]]) -> None:
        self.data_ptr = memory
        """A CUDA device pointer; of the interpreter, a number that only it understands."""
        self.dtype, self.shape, self.strides = dtype, shape, strides
        self._key: Tuple[Any, ...] = (Tensor, dtype, shape, strides, self.device.kind, self.device.ordinal)

    @classmethod
    def from_numpy(
        cls, array: Any, device: Union[str, Device] = "auto", *, dtype: Optional[str] = None, stream: Any = None
    ) -> "Tensor":
        """A copy. `dtype` says what the elements are where NumPy has no such type: "bf16" for bits in uint16, "f8e4m3" and
        "f8e5m2" for bits in uint8."""
        import numpy

        array = numpy.asarray(array)
        element = _types.from_numpy_dtype(array.dtype, dtype or "")
        if dtype and element.name != dtype:
            raise TypeError(f"an array of {array.dtype} has no elements of type {dtype}")
        tensor = cls(array.shape, element.name, device, stream=stream)
        dense = numpy.asarray(array, order="C")
        check(lib.minic_buffer_write(tensor._buffer, dense.ctypes.data, dense.nbytes))
        return tensor

    @classmethod
    def from_dlpack(cls, producer: Any, *, device: Union[str, Device, None] = None, stream: Any = None) -> "Tensor":
        """CUDA memory of another library, borrowed, for use on `stream`; or a copy of its host memory on `device` ("cpu")."""
        handle = stream_handle(stream or 0)
        borrowed = _dlpack.Borrowed(producer, handle)
        if borrowed.kind == _dlpack.CPU:
            return cls._copy_of(borrowed, open_device(device or "cpu"), stream)
        tensor = cls.__new__(cls)
        tensor.device = open_device(device or f"cuda:{borrowed.ordinal}")
        if borrowed.kind != tensor.device.kind or borrowed.ordinal != tensor.device.ordinal:
            raise BufferError(f"the tensor lies on device ({borrowed.kind}, {borrowed.ordinal}), not on {tensor.device.name}")
        tensor.stream = tensor.device.borrow(handle)
        tensor._buffer, tensor._lender = None, (borrowed, producer)
        tensor._set(borrowed.memory, borrowed.dtype.name, borrowed.shape, borrowed.strides)
        return tensor

    @classmethod
    def _copy_of(cls, borrowed: _dlpack.Borrowed, device: Device, stream: Any) -> "Tensor":
        """Of a tensor in host memory."""
        if not _is_dense(borrowed.shape, borrowed.strides):
            raise BufferError("a tensor in host memory has to be dense")
        tensor = cls(borrowed.shape, borrowed.dtype.name, device, stream=stream)
        check(lib.minic_buffer_write(tensor._buffer, borrowed.memory, _count(borrowed.shape) * borrowed.dtype.size))
        return tensor

    def numpy(self) -> Any:
        """A copy in host memory; waits for the stream."""
        import numpy

        array = numpy.empty(self.shape, _types.numpy_dtype(_types.by_name[self.dtype]))
        check(lib.minic_buffer_read(self._own(), array.ctypes.data, array.nbytes))
        return array

    def tobytes(self) -> bytes:
        """The elements, row by row; waits for the stream."""
        data = bytearray(_count(self.shape) * _types.by_name[self.dtype].size)
        check(lib.minic_buffer_read(self._own(), _address(data), len(data)))
        return bytes(data)

    def write(self, data: Any) -> None:
        """Copies all elements from anything that has contiguous bytes."""
        view = memoryview(data).cast("B")
        writable = bytearray(view) if view.readonly else view  # ctypes takes no address of what it may not write.
        check(lib.minic_buffer_write(self._own(), _address(writable), len(writable)))

    def _own(self) -> _Buffer:
        if self._buffer is None:
            raise TypeError("this tensor is borrowed from another library, which can copy it")
        return self._buffer

    def __repr__(self) -> str:
        sizes = "".join(f"{size}x" for size in self.shape)
        return f"minic.Tensor(tensor<{sizes}{self.dtype}>, {self.device.name!r})"

    def close(self) -> None:
        """Gives the memory back now; using the tensor afterwards is an error."""
        self._lender, self._key = None, ()
        if self._buffer is not None:
            self._buffer.close()

    def __enter__(self) -> "Tensor":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __dlpack_device__(self) -> Tuple[int, int]:
        return self.device.kind, self.device.ordinal

    def __dlpack__(
        self,
        *,
        stream: Optional[int] = None,
        max_version: Optional[Tuple[int, int]] = None,
        dl_device: Optional[Tuple[int, int]] = None,
        copy: Optional[bool] = None,
    ) -> Any:
        """For a consumer that works on `stream`. The interpreter's memory is no host memory, so of it this is a copy."""
        if self._lender is not None:
            return self._lender[1].__dlpack__(stream=stream)
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"the tensor lies on {self.device.name}; minic does not move it to device {tuple(dl_device)}")
        copies = self.device.kind == _dlpack.CPU
        if copy is not None and copy != copies:
            raise BufferError("minic always copies out of the interpreter" if copies else "minic does not copy on a GPU")
        if not copies and stream != -1 and stream_handle(stream or 0) != self.stream.cuda_stream:
            self.device.borrow(stream or 0).wait(self.stream.record())
        versioned = max_version is not None and max_version[0] >= 1
        managed = c_void_p()
        check(lib.minic_buffer_dlpack(self._buffer, versioned, byref(managed)))
        return _dlpack.capsule(managed, versioned)


def _dtype(name: str) -> _types.DType:
    try:
        return _types.by_name[name]
    except KeyError:
        raise TypeError(f"unknown element type {name!r}; it is one of {', '.join(_types.by_name)}") from None


def _address(data: Any) -> Optional[int]:
    """Of writable bytes, which the caller keeps."""
    return ctypes.addressof(ctypes.c_char.from_buffer(data)) if len(data) else None


def _count(shape: Sequence[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def _is_dense(shape: Sequence[int], strides: Optional[Sequence[int]]) -> bool:
    if strides is None or 0 in shape:
        return True
    expected = 1
    for size, stride in zip(reversed(shape), reversed(strides)):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True
