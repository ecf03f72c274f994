"""What cold_start.py starts of Python: one process, one result.

    cold_start_child.py PROVIDER CASE FOLDER RESULT DEVICE

A provider is a generator that yields the name of what it has done, and at last the result in host memory.
"""

import json
import os
import pathlib
import sys
import time

import cases
import graphs
import minic_package


def _read(case, folder):
    """The inputs as arrays; bf16 as its bits in uint16."""
    import numpy

    return [numpy.load(folder / f"{name}.npy") for name in case.inputs]


def minic_python(case, folder, device):
    minic = minic_package.package()
    yield "import"
    executable = minic.compile(graphs.text_of(case), device=device, cache="on").load(device=device)
    yield "compile"
    yield executable(*_read(case, folder))


def torch_compile(case, folder, device):
    import torch

    yield "import"
    function = {"softmax": lambda x: torch.softmax(x, -1), "linear": lambda x, w, b: torch.relu(x @ w + b)}[case.work]
    inputs = [torch.from_numpy(value) for value in _read(case, folder)]
    if case.dtype == "bf16":
        inputs = [value.view(torch.bfloat16) for value in inputs]
    result = torch.compile(function, dynamic=False)(*(value.to(device) for value in inputs)).cpu()
    yield (result.view(torch.uint16) if case.dtype == "bf16" else result).numpy()


def jax_jit(case, folder, device):
    import jax
    import jax.numpy as jnp
    import numpy

    yield "import"
    precision = "highest" if case.dtype == "f32" else None
    function = {
        "softmax": lambda x: jax.nn.softmax(x, axis=-1),
        "linear": lambda x, w, b: jax.nn.relu(jnp.matmul(x, w, precision=precision) + b),
    }[case.work]
    inputs = [jnp.asarray(value.view(jnp.bfloat16) if case.dtype == "bf16" else value) for value in _read(case, folder)]
    compiled = jax.jit(function).lower(*inputs).compile()
    yield "compile"
    yield numpy.asarray(compiled(*inputs))


PROVIDERS = {"minic, Python": minic_python, "jax.jit": jax_jit, "torch.compile": torch_compile}


def main(provider, case, folder, result, device):
    """Prints a line of JSON: what was done when, by CLOCK_MONOTONIC."""
    marks = {"start": time.monotonic()}
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    work, sizes, dtype = json.loads(case)
    for done in PROVIDERS[provider](cases.Case(work, tuple(sizes), dtype), pathlib.Path(folder), device):
        marks[done if isinstance(done, str) else "result"] = time.monotonic()
    import numpy

    pathlib.Path(result).write_bytes(numpy.asarray(done).tobytes())
    print(json.dumps(marks), file=answers, flush=True)
    sys.stderr.flush()
    os._exit(0)  # Taking a framework down is not what is measured.


if __name__ == "__main__":
    main(*sys.argv[1:])
