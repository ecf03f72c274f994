"""Compiles softmax and runs it on NumPy arrays, and on torch's where torch is installed: on a GPU if there is one."""

import pathlib

import numpy

import minic

artifact = minic.compile(pathlib.Path(__file__).parent.parent / "softmax.ir")
print(artifact)
softmax = artifact.load("auto")

x = numpy.array([[0, 1, 2]], dtype="float32")
print("y =", softmax(x).round(4).tolist())  # Copied to the device and back.

try:
    import torch
except ImportError:
    torch = None
if torch is not None and softmax.device.name.startswith("cuda"):
    on_gpu = torch.randn(4096, 1024, device=softmax.device.name)
    y = softmax(on_gpu)  # On torch's current stream; nothing is copied, nothing waits.
    print("largest difference from torch:", (y - torch.softmax(on_gpu, 1)).abs().max().item())
