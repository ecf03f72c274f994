"""Executables: artifacts on a device, run on tensors of any library."""

from __future__ import annotations

import os
import sys
from ctypes import POINTER, byref, c_int64, c_size_t, c_void_p, cast
from typing import Any, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from . import _dlpack, _library, _types
from ._arguments import HOST, Arguments
from ._device import Device, Stream, stream_handle
from ._library import Handle, MinicError, check, encode, lib
from ._tensor import Tensor

Weights = Union[str, "os.PathLike[str]", Mapping[str, Any], None]


def read_specs(function: Any, owner: Handle) -> Tuple[_types.TensorSpec, ...]:
    """What one of the functions that ask for specs gives."""
    specs, count = POINTER(_library.TensorSpec)(), c_size_t()
    check(function(owner, byref(specs), byref(count)))
    read = []
    for spec in specs[: count.value]:
        dims, sizes = spec.dims[: spec.rank], spec.sizes[: spec.rank]
        shape = tuple(size if size >= 0 else dim.decode() for dim, size in zip(dims, sizes))
        read.append(_types.TensorSpec(spec.name.decode(), _types.by_number[spec.dtype].name, shape))
    return tuple(read)


class _WeightList:
    """Weights as the C interface takes them."""

    def __init__(self, weights: Weights, specs: Sequence[_types.TensorSpec]) -> None:
        self._kept: List[Any] = []
        if weights is None:
            entries = []
        elif isinstance(weights, Mapping):
            by_name = {spec.name: spec for spec in specs}
            entries = [self._entry(name, value, by_name) for name, value in weights.items()]
        else:
            entries = [_library.Weight(None, encode(weights), None)]
        self.count = len(entries)
        self.array = (_library.Weight * self.count)(*entries)

    def _entry(self, name: str, value: Any, by_name: Mapping[str, _types.TensorSpec]) -> _library.Weight:
        if isinstance(value, (str, os.PathLike)):
            return _library.Weight(encode(name), encode(value), None)
        spec = by_name.get(name) or _types.TensorSpec(name, "", ())  # The library says that there is no such input.
        arguments = Arguments([spec], "weight", None)
        if _is_torch(value):
            value = value.detach().cpu().contiguous()
        elif isinstance(value, Tensor):
            value = value.numpy()
        arguments.fill([value], 0)
        self._kept.append((arguments, value))
        return _library.Weight(encode(name), None, cast(arguments.address, POINTER(_library.Tensor)))


class _Frame:
    """What a call needs; kept for later ones."""

    __slots__ = ("inputs", "results", "shapes")

    def __init__(self, inputs: Arguments, results: Arguments) -> None:
        self.inputs, self.results = inputs, results
        self.shapes: Optional[List[Tuple[int, ...]]] = None


class ShapeCounts(NamedTuple):
    """What became of the shapes, with their strides, that calls brought. A call looks for its shape once or, for the sizes of its
    results, twice."""

    hits: int
    misses: int
    evictions: int
    """Forgotten to make room: the one used longest ago."""
    compilations: int
    """Of code for one shape, which `jit` asks for."""
    kept: int
    limit: int


class Executable(Handle):
    """A graph on a device. Threads and streams may share it."""

    __slots__ = ("device", "inputs", "results", "_frames")

    def __init__(self, artifact: Handle, device: Device, weights: Weights, specs: Sequence[_types.TensorSpec]) -> None:
        handle, bound = c_void_p(), _WeightList(weights, specs)
        check(lib.minic_executable_load(artifact, device, bound.array, bound.count, byref(handle)))
        super().__init__(handle, lib.minic_executable_destroy)
        self.device = device
        self.inputs = read_specs(lib.minic_executable_inputs, self)
        """What it takes: the graph's inputs without the weights."""
        self.results = read_specs(lib.minic_executable_results, self)
        self._frames: List[_Frame] = []

    def __repr__(self) -> str:
        inputs, results = (", ".join(map(str, specs)) for specs in (self.inputs, self.results))
        return f"minic.Executable(({inputs}) -> ({results}), {self.device.name!r})"

    def __call__(self, *inputs: Any, stream: Any = None) -> Any:
        """The result, or a tuple of them, as tensors of the first input's library.

        On a GPU it is only enqueued on `stream`: a number, a stream of minic, torch or cupy, or None: torch's or cupy's current
        stream for their tensors, else CUDA's default stream. NumPy arrays are copied to the device and back, which waits."""
        frame = self._take_frame()
        try:
            handle = self.stream_of(stream, inputs)
            if frame.inputs.fill(inputs, handle) or frame.shapes is None:
                frame.shapes = None
                frame.shapes = self._result_shapes(frame)
            results, give = self._make_results(frame.shapes, inputs, handle)
            frame.results.fill(results, handle)
            self._enqueue(frame, handle, stream, inputs, results)
        finally:
            self._give_frame(frame)
        if give is not None:
            results = [_dlpack.to_library(give, result) for result in results]
        return results[0] if len(results) == 1 else tuple(results)

    def run(self, inputs: Sequence[Any], results: Sequence[Any], stream: Any = None) -> None:
        """Runs into tensors that are there already. On a GPU it is only enqueued; the tensors must stay until it is done."""
        frame = self._take_frame()
        try:
            handle = self.stream_of(stream, inputs or results)
            if frame.inputs.fill(inputs, handle):
                frame.shapes = None
            frame.results.fill(results, handle)
            self._enqueue(frame, handle, stream, inputs, results)
        finally:
            self._give_frame(frame)

    @property
    def shapes(self) -> ShapeCounts:
        read = _library.ShapeCounts()
        check(lib.minic_executable_shape_counts(self, byref(read)))
        return ShapeCounts(*(getattr(read, name) for name in ShapeCounts._fields))

    def limit_shapes(self, limit: int) -> None:
        """How many shapes are kept ready: 64 at first, at least 1."""
        check(lib.minic_executable_limit_shapes(self, limit))

    def allow_compilation(self, allowed: bool = True) -> None:
        """Whether `jit` may compile for new sizes. If not, they are a MinicError (E0910) that names them and the known ones."""
        check(lib.minic_executable_allow_compilation(self, allowed))

    def capture(self, inputs: Sequence[Any], results: Sequence[Any]) -> "CapturedRun":
        """Records a run on these tensors without doing it."""
        frame = self._take_frame()
        try:
            if frame.inputs.fill(inputs, 0):
                frame.shapes = None
            frame.results.fill(results, 0)
            if HOST in frame.inputs.places + frame.results.places:
                raise TypeError("a run is captured on tensors of the device: make them minic tensors")
            handle, given, into = c_void_p(), frame.inputs, frame.results
            check(lib.minic_executable_capture(self, given.address, given.count, into.address, into.count, byref(handle)))
        finally:
            self._give_frame(frame)
        return CapturedRun(handle, self, (*inputs, *results))

    # Frames are taken and given back, so that threads do not share one.

    def _take_frame(self) -> _Frame:
        try:
            return self._frames.pop()
        except IndexError:
            return _Frame(Arguments(self.inputs, "input", self.device), Arguments(self.results, "result", self.device))

    def _give_frame(self, frame: _Frame) -> None:
        frame.inputs.drop()
        frame.results.drop()
        self._frames.append(frame)

    def stream_of(self, stream: Any, tensors: Sequence[Any]) -> int:
        """The CUstream of a call with these tensors."""
        if stream is not None:
            return stream_handle(stream)
        if self.device.kind != _dlpack.CUDA or not tensors:
            return 0
        return _current_stream(tensors[0], self.device.ordinal)

    def order(self, stream: Any, handle: int) -> Optional[Stream]:
        """The stream of a call as the C interface takes it."""
        return stream if type(stream) is Stream else self.device.borrow(handle) if handle else None

    def _result_shapes(self, frame: _Frame) -> List[Tuple[int, ...]]:
        room = sum(len(spec.shape) for spec in self.results)
        dims = (c_int64 * room)()
        check(lib.minic_executable_result_dims(self, frame.inputs.address, frame.inputs.count, dims, room))
        shapes, at = [], 0
        for spec in self.results:
            shapes.append(tuple(dims[at : at + len(spec.shape)]))
            at += len(spec.shape)
        return shapes

    def _make_results(self, shapes: List[Tuple[int, ...]], inputs: Sequence[Any], stream: int) -> Tuple[List[Any], Optional[str]]:
        """Tensors for the results, and the library that they go to when they are done, if they are not of it already."""
        first: Any = inputs[0] if inputs else None
        wanted = [(shape, _types.by_name[spec.dtype]) for shape, spec in zip(shapes, self.results)]
        library = "minic" if first is None or isinstance(first, Tensor) else _dlpack.module_of(first)
        if _is_torch(first):
            torch = sys.modules["torch"]
            empty, device = torch.empty, first.device
            return [empty(shape, dtype=getattr(torch, dtype.torch), device=device) for shape, dtype in wanted], None
        if library == "numpy":
            import numpy

            return [numpy.empty(shape, _types.numpy_dtype(dtype)) for shape, dtype in wanted], None
        on = self.device.borrow(stream)
        tensors = [Tensor(shape, dtype.name, self.device, stream=on) for shape, dtype in wanted]
        return tensors, library if library != "minic" else None

    def _enqueue(self, frame: _Frame, handle: int, stream: Any, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        given, into = frame.inputs, frame.results
        if HOST not in given.places and HOST not in into.places:
            if self.device.kind == _dlpack.CUDA and not (stream is None and inputs and _is_torch(inputs[0])):
                _order_torch(handle, self.device.ordinal, inputs, results)
            on = self.order(stream, handle)
            check(lib.minic_executable_run(self, on, given.address, given.count, into.address, into.count))
            return
        for arguments in (given, into):
            for i, place in enumerate(arguments.places):
                if place != HOST:
                    raise MinicError(
                        "E0602",
                        f"error: {arguments.name(i)} lies on a device, and other tensors of the call in host memory [E0602]",
                        fix="move them to one place",
                    )
        check(lib.minic_executable_run_host(self, given.address, given.count, into.address, into.count))


class CapturedRun(Handle):
    """A run with its tensors fixed, done again by each launch. It keeps the tensors; its launches must not overlap."""

    __slots__ = ("executable", "_tensors")

    def __init__(self, handle: c_void_p, executable: Executable, tensors: Tuple[Any, ...]) -> None:
        super().__init__(handle, lib.minic_captured_run_destroy)
        self.executable, self._tensors = executable, tensors

    def launch(self, stream: Any = None) -> None:
        """Enqueues the run on `stream`, as a call of the executable does."""
        executable = self.executable
        check(lib.minic_captured_run_launch(self, executable.order(stream, executable.stream_of(stream, self._tensors))))


def _is_torch(tensor: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(tensor, torch.Tensor)


def _current_stream(tensor: Any, ordinal: int) -> int:
    """The CUstream that the library of a tensor works on at the moment."""
    if _is_torch(tensor):
        return _torch_stream(sys.modules["torch"], ordinal) if tensor.is_cuda else 0
    if _dlpack.module_of(tensor) == "cupy":
        return int(sys.modules["cupy"].cuda.get_current_stream().ptr)
    return tensor.stream.cuda_stream if isinstance(tensor, Tensor) else 0


def _torch_stream(torch: Any, ordinal: int) -> int:
    fast = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    return fast(ordinal) if fast else torch.cuda.current_stream(ordinal).cuda_stream


def _order_torch(handle: int, ordinal: int, inputs: Sequence[Any], results: Sequence[Any]) -> None:
    """Where a run is not on torch's current stream: puts it after what torch has enqueued, and keeps memory until it is done."""
    tensors = [tensor for tensor in (*inputs, *results) if _is_torch(tensor) and tensor.is_cuda]
    torch: Any = sys.modules.get("torch")
    if not tensors or _torch_stream(torch, ordinal) == handle:
        return
    current = torch.cuda.current_stream(ordinal)
    side = torch.cuda.ExternalStream(handle, device=ordinal) if handle else torch.cuda.default_stream(ordinal)
    side.wait_stream(current)
    for tensor in tensors:
        tensor.record_stream(side)
