"""Devices, streams and events."""

from __future__ import annotations

import os
from ctypes import byref, c_double, c_int, c_void_p
from typing import Any, Dict, Optional, Union

from ._cache import Cache, open_cache
from ._library import DeviceInfo, Handle, check, encode, lib


class Device(Handle):
    """A device that runs graphs: "cuda:0", or "cpu", the interpreter. Opening one again gives the same one."""

    __slots__ = ("name", "kind", "ordinal", "compute_capability", "_borrowed")

    def __init__(self, name: str = "auto") -> None:
        """`name`: "auto" (the first CUDA device, else the interpreter), "cuda", "cuda:N" or "cpu"."""
        handle = c_void_p()
        check(lib.minic_device_open(encode(name), byref(handle)))
        super().__init__(handle, lib.minic_device_destroy)
        info = DeviceInfo()
        check(lib.minic_device_info(self, byref(info)))
        self.name: str = info.name.decode()
        self.kind: int = info.kind
        """1: the interpreter, 2: CUDA, as in DLPack."""
        self.ordinal: int = info.ordinal
        self.compute_capability: int = info.compute_capability
        """90 for sm_90; 0 for the interpreter."""
        self._borrowed: Dict[int, Stream] = {}

    def __repr__(self) -> str:
        return f"minic.Device({self.name!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def use_cache(self, cache: Union[str, Cache, None]) -> None:
        """From now on what the driver makes of PTX is kept for later processes, and taken from there. `cache`: as for `compile`; None:
        nothing is, as at first."""
        check(lib.minic_device_use_cache(self, open_cache(cache)))

    def borrow(self, cuda_stream: int) -> "Stream":
        """The caller's own CUstream (0: CUDA's default stream), which must outlive its use."""
        stream = self._borrowed.get(cuda_stream)
        if stream is None:
            if len(self._borrowed) >= 64:
                self._borrowed.clear()
            stream = self._borrowed[cuda_stream] = Stream(self, _handle=cuda_stream)
        return stream


_opened: Dict[str, Device] = {}
os.register_at_fork(after_in_child=_opened.clear)


def open_device(device: Union[str, Device]) -> Device:
    """A device, or the one of a name, which stays open."""
    if isinstance(device, Device):
        return device
    if device not in _opened:
        _opened[device] = Device(device)
    return _opened[device]


def cuda_device_count() -> int:
    """How many CUDA devices this process can use. A MinicError says why there is no driver."""
    count = c_int()
    check(lib.minic_cuda_device_count(byref(count)))
    return count.value


class Stream(Handle):
    """A queue of work on a device: work in one is done in order, work in two may overlap."""

    __slots__ = ("device", "cuda_stream")

    def __init__(self, device: Union[str, Device] = "auto", *, _handle: Optional[int] = None) -> None:
        self.device = open_device(device)
        handle = c_void_p()
        if _handle is None:
            check(lib.minic_stream_create(self.device, byref(handle)))
        else:
            check(lib.minic_stream_borrow(self.device, _handle or None, byref(handle)))
        super().__init__(handle, lib.minic_stream_destroy)
        check(lib.minic_stream_handle(self, byref(handle)))
        self.cuda_stream: int = handle.value or 0
        """The CUstream."""

    def __repr__(self) -> str:
        return f"minic.Stream({self.device.name!r}, {self.cuda_stream:#x})"

    def __cuda_stream__(self) -> "tuple[int, int]":
        return 0, self.cuda_stream

    def synchronize(self) -> None:
        """Waits for everything on the stream, and raises what of it failed."""
        check(lib.minic_stream_synchronize(self))

    def wait(self, event: "Event") -> None:
        """What comes on the stream from here on waits for the event."""
        check(lib.minic_stream_wait(self, event))

    def record(self) -> "Event":
        """An event for everything on the stream so far."""
        event = Event(self.device)
        event.record(self)
        return event


class Event(Handle):
    """A point in a stream that others can wait for, and whose time can be asked."""

    __slots__ = ("device",)

    def __init__(self, device: Union[str, Device] = "auto") -> None:
        self.device = open_device(device)
        handle = c_void_p()
        check(lib.minic_event_create(self.device, byref(handle)))
        super().__init__(handle, lib.minic_event_destroy)

    def record(self, stream: Stream) -> None:
        """The event stands for everything on the stream so far."""
        check(lib.minic_event_record(self, stream))

    def synchronize(self) -> None:
        check(lib.minic_event_synchronize(self))

    @property
    def done(self) -> bool:
        answer = c_int()
        check(lib.minic_event_is_done(self, byref(answer)))
        return bool(answer.value)

    def elapsed_since(self, earlier: "Event") -> float:
        """Milliseconds from `earlier` to this; both must be done."""
        milliseconds = c_double()
        check(lib.minic_event_elapsed(earlier, self, byref(milliseconds)))
        return milliseconds.value


def stream_handle(stream: Any) -> int:
    """The CUstream of a number, or of a stream of minic, torch, cupy or whoever has `__cuda_stream__`."""
    if isinstance(stream, int):
        return stream
    for name in ("cuda_stream", "ptr"):
        handle = getattr(stream, name, None)
        if isinstance(handle, int):
            return handle
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is None:
        raise TypeError(f"a stream is a number or has cuda_stream, __cuda_stream__() or ptr; this is {type(stream).__name__}")
    version_and_handle = protocol() if callable(protocol) else protocol
    return int(version_and_handle[1])
