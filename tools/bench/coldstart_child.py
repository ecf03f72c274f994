"""What coldstart.py starts: one process, one result. A provider is a generator: its first two yields end importing and compiling,
the third gives the result in host memory."""

import json
import os
import time

import graphs
import minic_package


def _minic(case, folder, load):
    minic = minic_package.package()
    yield
    executable = load(minic).load(device="cuda:0")
    yield
    yield executable(*read(case, folder))


def minic_python(case, folder):
    return _minic(case, folder, lambda minic: minic.compile(graphs.text_of(case)))


def minic_artifact(case, folder):
    return _minic(case, folder, lambda minic: minic.load(str(folder / "graph.mnc")))


def _torch(case, folder, wrap):
    import torch

    yield
    function = {"softmax": lambda x: torch.softmax(x, -1), "linear": lambda x, w, b: torch.relu(x @ w + b)}[case.work]
    function = wrap(torch, function)
    yield
    inputs = [torch.from_numpy(value) for value in read(case, folder)]
    if case.dtype == "bf16":
        inputs = [value.view(torch.bfloat16) for value in inputs]
    result = function(*(value.cuda() for value in inputs)).cpu()
    yield (result.view(torch.uint16) if case.dtype == "bf16" else result).numpy()


def torch_eager(case, folder):
    return _torch(case, folder, lambda torch, function: function)


def torch_compile(case, folder):
    return _torch(case, folder, lambda torch, function: torch.compile(function, dynamic=False))


def jax_jit(case, folder):
    import jax
    import jax.numpy as jnp
    import numpy

    yield
    precision = "highest" if case.dtype == "f32" else None
    function = {
        "softmax": lambda x: jax.nn.softmax(x, axis=-1),
        "linear": lambda x, w, b: jax.nn.relu(jnp.matmul(x, w, precision=precision) + b),
    }[case.work]
    inputs = [jnp.asarray(value.view(jnp.bfloat16) if case.dtype == "bf16" else value) for value in read(case, folder)]
    compiled = jax.jit(function).lower(*inputs).compile()
    yield
    yield numpy.asarray(compiled(*inputs))


def bare_driver(case, folder):
    import ctypes as C

    import numpy

    import driver

    yield
    launch = json.loads((folder / "launch.json").read_text())
    device, context = C.c_int(), C.c_void_p()
    driver.call("cuInit", 0)
    driver.call("cuDeviceGet", C.byref(device), 0)
    driver.call("cuDevicePrimaryCtxRetain", C.byref(context), device)
    driver.call("cuCtxSetCurrent", context)
    function = driver.Function((folder / "graph.ptx").read_bytes(), launch["kernel"])
    yield
    arrays = dict(zip(case.inputs, read(case, folder)))
    arrays["y"] = numpy.empty(case.results["y"], numpy.uint16 if case.dtype == "bf16" else numpy.float32)
    memory = {name: C.c_void_p() for name in arrays}
    for name, array in arrays.items():
        driver.call("cuMemAlloc_v2", C.byref(memory[name]), C.c_size_t(array.nbytes))
        if name != "y":
            driver.call("cuMemcpyHtoD_v2", memory[name], C.c_void_p(array.ctypes.data), C.c_size_t(array.nbytes))
    addresses = [C.addressof(memory[name]) for name in launch["buffers"]]
    function.launcher(launch["grid"], launch["threads"], addresses)()
    driver.call("cuMemcpyDtoH_v2", C.c_void_p(arrays["y"].ctypes.data), memory["y"], C.c_size_t(arrays["y"].nbytes))
    yield arrays["y"]


PROVIDERS = {
    "minic": minic_python,
    "minic, .mnc artifact": minic_artifact,
    "torch eager": torch_eager,
    "torch.compile": torch_compile,
    "jax.jit": jax_jit,
    "bare driver program": bare_driver,
}


def read(case, folder):
    """The inputs as arrays; bf16 as its bits in uint16."""
    import numpy

    return [numpy.load(folder / f"{name}.npy") for name in case.inputs]


def error_of(case, folder, result):
    """As measure.error_of, for a result in host memory."""
    import numpy

    expected, result = numpy.load(folder / "expected.npy"), numpy.asarray(result)
    if case.dtype == "bf16":
        result = (result.view(numpy.uint16).astype(numpy.uint32) << 16).view(numpy.float32)
    error = float(numpy.abs(result.astype(numpy.float64) - expected).max() / numpy.abs(expected).max())
    return error if error == error else float("inf")


def run(provider, case, folder, start):
    """Runs in a process of its own; prints one line of JSON. `start` is the parent's clock, which is the system's, at the start."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        marks = [time.monotonic()]
        for result in PROVIDERS[provider](case, folder):
            marks.append(time.monotonic())
        answer = {
            "wall_s": marks[3] - start,
            "import_s": marks[1] - marks[0],
            "compile_s": marks[2] - marks[1],
            "first_s": marks[3] - marks[2],
            "err": error_of(case, folder, result),
        }
    except Exception as error:  # Its words go into the provider's row.
        answer = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer), file=answers, flush=True)
    os._exit(0)  # Taking a framework down is not what is measured.
