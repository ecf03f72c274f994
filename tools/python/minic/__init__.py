"""minic: a small tensor compiler.

    import minic, numpy
    artifact = minic.compile("softmax.ir")            # IR text or a file of it
    softmax = artifact.load("auto")                   # the first GPU, else an interpreter
    y = softmax(numpy.random.rand(64, 1024).astype("float32"))

Tensors of torch, cupy, jax and NumPy go in and come out; on a GPU nothing is copied and nothing waits.
"""

from ._artifact import Artifact, compile, emit, jit, load
from ._cache import Cache, CacheInfo
from ._device import Device, Event, Stream, cuda_device_count
from ._executable import CapturedRun, Executable, ShapeCounts
from ._library import MinicError, lib as _lib
from ._tensor import Tensor
from ._types import TensorSpec

__version__: str = _lib.minic_version().decode()


def version() -> str:
    """Of the library."""
    return __version__


def llvm_version() -> str:
    """Of the LLVM that the compiler uses."""
    return _lib.minic_llvm_version().decode()


__all__ = [
    "Artifact",
    "Cache",
    "CacheInfo",
    "CapturedRun",
    "Device",
    "Event",
    "Executable",
    "MinicError",
    "ShapeCounts",
    "Stream",
    "Tensor",
    "TensorSpec",
    "compile",
    "cuda_device_count",
    "emit",
    "jit",
    "llvm_version",
    "load",
    "version",
]
