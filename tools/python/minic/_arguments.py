"""Tensors of any library as the C interface takes them, with what was worked out for the last call kept for the next."""

from __future__ import annotations

import ctypes
import sys
from ctypes import c_int64
from typing import Any, List, Optional, Sequence, Tuple

from . import _dlpack, _library, _types
from ._device import Device
from ._library import MinicError
from ._tensor import Tensor

HOST, DEVICE = "host", "device"
_UNSTATED = 0  # Kind of device; of a tensor in host memory that the library copies from or to.


class Arguments:
    """Descriptions of the inputs or results of a call. One call uses it at a time."""

    __slots__ = ("specs", "what", "address", "count", "places")
    __slots__ += ("_device", "_takes_host", "_array", "_elements", "_keys", "_numbers", "_lent")

    def __init__(self, specs: Sequence[_types.TensorSpec], what: str, device: Optional[Device]) -> None:
        """`what`: "input", "result" or "weight"; `device`: of the executable, None for weights, which are in host memory."""
        self.specs, self.what, self._device = specs, what, device
        self._takes_host = device is None or device.kind == _dlpack.CPU  # Of any library, not NumPy's alone.
        self.count = len(specs)
        self._array = (_library.Tensor * self.count)()
        self.address = ctypes.addressof(self._array)
        self.places: List[str] = [DEVICE] * self.count
        self._elements = [self._array[i] for i in range(self.count)]
        self._keys: List[Optional[Tuple[Any, ...]]] = [None] * self.count
        self._numbers: List[Any] = [None] * self.count  # Shapes and strides that the elements point to.
        self._lent: List[Any] = []  # What other libraries lend for this call.

    def fill(self, tensors: Sequence[Any], stream: int) -> bool:
        """Describes the tensors for use on `stream`. True if a type, shape or place is another than at the last call."""
        if len(tensors) != self.count:
            names = ", ".join(spec.name for spec in self.specs)
            code = "E0603" if len(tensors) < self.count else "E0602"
            raise MinicError(
                code,
                f"error: expected {self.count} {self.what}s ({names}), given {len(tensors)} [{code}]",
                kind="data",
            )
        torch: Any = sys.modules.get("torch")
        is_torch = getattr(torch, "Tensor", ())
        key: Tuple[Any, ...]
        changed = False
        for i, tensor in enumerate(tensors):
            if type(tensor) is Tensor:
                memory, key = tensor.data_ptr, tensor._key
            elif isinstance(tensor, is_torch):
                memory = tensor.data_ptr()
                key = (tensor.dtype, tensor.shape, tensor.stride(), tensor.device)
                if tensor.requires_grad and torch.is_grad_enabled():
                    raise TypeError(f"{self.name(i)} requires grad, and minic has no gradients: use torch.no_grad()")
            else:
                memory, key = self._foreign(i, tensor, stream)
            if self._keys[i] != key:
                changed = True
                self._keys[i] = None
                self._describe(i, key)
                self._keys[i] = key
            self._elements[i].memory = memory
        return changed

    def drop(self) -> None:
        """Lets go of what other libraries lent for the call."""
        self._lent.clear()

    def _describe(self, i: int, key: Tuple[Any, ...]) -> None:
        if not key:
            raise MinicError("E1101", f"error: {self.name(i)} was closed [E1101]", kind="usage")
        if key[0] is Tensor:
            _, dtype, shape, strides, kind, ordinal = key
            number = _types.by_name[dtype].number
        else:
            number, shape, strides, kind, ordinal = self._torch(i, *key)
        rank = len(shape)
        sizes = (c_int64 * rank)(*shape)
        steps = None if strides is None else (c_int64 * rank)(*strides)
        element = self._elements[i]
        element.shape = ctypes.addressof(sizes)
        element.strides = None if steps is None else ctypes.addressof(steps)
        element.dtype, element.rank, element.device_kind, element.device_ordinal = number, rank, kind, ordinal
        self._numbers[i] = (sizes, steps)
        self.places[i] = HOST if kind == _UNSTATED else DEVICE

    def _torch(self, i: int, dtype: Any, shape: Any, strides: Any, device: Any) -> Tuple[Any, ...]:
        try:
            number = _types.by_torch[str(dtype)].number
        except KeyError:
            raise TypeError(f"{self.name(i)} is of {dtype}, which minic does not have") from None
        if device.type == "cuda":
            return number, shape, strides, _dlpack.CUDA, device.index or 0
        if device.type == "cpu":
            return number, shape, strides, _UNSTATED if self._takes_host else _dlpack.CPU, 0
        raise TypeError(f"{self.name(i)} lies on {device}; minic knows cpu and cuda")

    def _foreign(self, i: int, tensor: Any, stream: int) -> Tuple[int, Tuple[Any, ...]]:
        """Memory and key of a tensor that is neither minic's nor torch's."""
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(tensor, numpy.ndarray):
            dtype = _types.from_numpy_dtype(tensor.dtype, self.specs[i].dtype)
            whole = all(step % dtype.size == 0 for step in tensor.strides) and tensor.ctypes.data % dtype.size == 0
            if self.what == "weight" or (self.what == "input" and not whole):
                tensor = numpy.asarray(tensor, order="C")  # ascontiguousarray makes scalars into vectors.
                self._lent.append(tensor)
            elif not whole:
                raise TypeError(f"{self.name(i)} has elements at addresses that are no multiples of their {dtype.size} bytes")
            strides = tuple(step // dtype.size for step in tensor.strides)
            return tensor.ctypes.data, (Tensor, dtype.name, tensor.shape, strides, _UNSTATED, 0)
        if hasattr(tensor, "__dlpack__"):
            lent = _dlpack.Borrowed(tensor, stream)
            if lent.kind == _dlpack.CPU and self._device is not None and self._takes_host:
                if self.what == "result":
                    given = type(tensor).__name__
                    raise TypeError(f"{self.name(i)} is a {given}: the interpreter writes tensors of minic, NumPy and torch")
                # Its library gets the results from tensors of minic, so this becomes one too.
                copy = Tensor._copy_of(lent, self._device, stream)
                self._lent.append(copy)
                return copy.data_ptr, copy._key
            self._lent.append(lent)
            kind = _UNSTATED if lent.kind == _dlpack.CPU and self._takes_host else lent.kind
            return lent.memory, (Tensor, lent.dtype.name, lent.shape, lent.strides, kind, lent.ordinal)
        raise TypeError(f"{self.name(i)} is a {type(tensor).__name__}, expected a tensor of minic, NumPy, torch or with __dlpack__")

    def name(self, i: int) -> str:
        return f"{self.what} '{self.specs[i].name}'"
