"""The CUDA driver through ctypes: enough to load a kernel and launch it. Opens libcuda at its first call."""

import ctypes as C
import functools


@functools.cache
def library():
    return C.CDLL("libcuda.so.1")


def call(name, *arguments):
    """Calls a driver function; RuntimeError with CUDA's name of the error if it fails."""
    result = getattr(library(), name)(*arguments)
    if result:
        text = C.c_char_p()
        library().cuGetErrorName(result, C.byref(text))
        raise RuntimeError(f"{name}: {(text.value or b'CUDA error').decode()} ({result})")


class Function:
    """A kernel of a PTX or cubin image (bytes), in the current context."""

    def __init__(self, image, name, shared_bytes=0):
        module, self.handle = C.c_void_p(), C.c_void_p()
        call("cuModuleLoadData", C.byref(module), image + b"\0")
        call("cuModuleGetFunction", C.byref(self.handle), module, name.encode())
        if shared_bytes:
            call("cuFuncSetAttribute", self.handle, 8, shared_bytes)  # 8: the largest dynamic shared memory
        self.shared_bytes = shared_bytes

    def launcher(self, grid, threads, addresses, stream=None):
        """A function that launches it; `addresses` say where each parameter lies in host memory, which the caller keeps alive."""
        parameters = (C.c_void_p * len(addresses))(*addresses)
        stream = C.c_void_p(stream)

        def launch():
            call("cuLaunchKernel", self.handle, grid, 1, 1, threads, 1, 1, self.shared_bytes, stream, parameters, None)

        return launch
