#!/usr/bin/env python3
"""Times the hand-written kernels of examples/kernels beside what people use today, in one process, on a GPU with sm_90a.

    tools/bench/kernels.py path/to/minic [--examples DIR] [--json OUT] [softmax] [gemm] [attention]

Each kernel is compiled by `minic compile --emit=ptx` and loaded by the driver; its output is filled with NaN before each of 20 runs,
which must give equal bits, and is checked against torch. Only then it is timed: medians of rounds in which all candidates run in
random order, so that clocks and heat are the same for all. Needs torch.
"""
import argparse
import ctypes as C
import json
import pathlib
import statistics
import subprocess
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import driver
import measure

BF16 = torch.bfloat16


def tensor_map(tensor, box):
    """As lib/Runtime/TensorMaps.cpp: bf16, 128-byte swizzle, slabs as one more axis where the box is wider than 64 columns."""
    rows, columns = tensor.shape
    sizes, strides, boxes = [columns, rows], [columns * 2], [box[1], box[0]]
    if box[1] > 64:
        sizes, strides, boxes = [64, rows, columns // 64], [columns * 2, 128], [64, box[0], box[1] // 64]
    memory = (C.c_ubyte * 192)()
    address = (C.addressof(memory) + 63) // 64 * 64
    n = len(sizes)
    driver.call("cuTensorMapEncodeTiled", C.c_void_p(address), 9, C.c_uint32(n), C.c_void_p(tensor.data_ptr()),
                (C.c_uint64 * n)(*sizes), (C.c_uint64 * (n - 1))(*strides), (C.c_uint32 * n)(*boxes), (C.c_uint32 * n)(*[1] * n),
                0, 3, 2, 0)
    return memory, address


class Kernel:
    """A kernel of one file; parameters are tensors, (tensor, box) for tensor maps, and sizes."""

    def __init__(self, minic, path, name, threads, shared_bytes):
        ptx = subprocess.run([minic, "compile", str(path), "--emit=ptx"], check=True, capture_output=True).stdout
        self.function, self.threads = driver.Function(ptx, name, shared_bytes), threads

    def launcher(self, grid, *parameters):
        values = []
        for parameter in parameters:
            if isinstance(parameter, tuple):
                values.append(tensor_map(*parameter))
            else:
                value = C.c_void_p(parameter.data_ptr()) if torch.is_tensor(parameter) else C.c_int32(parameter)
                values.append((value, C.addressof(value)))
        stream = torch.cuda.current_stream().cuda_stream
        launch = self.function.launcher(grid, self.threads, [address for _, address in values], stream)
        launch.keep = values, parameters
        return launch


def check(launch, output, reference, tolerance):
    """The relative error (Frobenius norm) of the output; fails if it is large or if 20 runs do not agree bit for bit."""
    first = None
    for _ in range(20):
        measure.poison(output)
        launch()
        torch.cuda.synchronize()
        first = output.clone() if first is None else first
        if not torch.equal(first.view(torch.int16), output.view(torch.int16)):
            raise RuntimeError("two runs differ")
    error = ((first.double() - reference.double()).norm() / reference.double().norm()).item()
    if not error < tolerance:
        raise RuntimeError(f"relative error {error:.2e}, allowed {tolerance:.0e}")
    return error


def medians_us(candidates, rounds=12, repeats=10):
    def timer(run):
        return lambda _: measure.event_median(run, repeats) * 1e3

    for run in candidates.values():
        run()
    times = measure.interleaved({name: timer(run) for name, run in candidates.items()}, rounds)
    return {name: statistics.median(values) for name, values in times.items()}


def randn(*shape):
    return torch.randn(*shape, device="cuda", dtype=BF16)


def softmax(minic, examples):
    kernel = Kernel(minic, examples / "row_softmax_warp.ir", "row_softmax_warp_1x1024", 32, 0)
    cluster = Kernel(minic, examples / "row_softmax_cluster.ir", "row_softmax_cluster_1x32768", 256, 0)
    for rows, columns, by_hand, ctas in ((65536, 1024, kernel, 1), (262144, 1024, kernel, 1), (8192, 32768, cluster, 4)):
        x = randn(rows, columns)
        y, z = torch.empty_like(x), torch.empty_like(x)
        launch = by_hand.launcher(rows * ctas, x, y, rows)
        error = check(launch, y, torch.softmax(x.float(), 1), 3e-3)
        times = medians_us({"minic": launch, "copy": lambda: z.copy_(x), "torch": lambda: torch.softmax(x, 1)})
        yield f"softmax {rows}x{columns}", error, times, {"TB/s": 4 * x.numel() / times["minic"] / 1e6}


def gemm(minic, examples):
    kernel = Kernel(minic, examples / "gemm_bias_relu_sm90.ir", "gemm_bias_relu_128x256", 384, 229376)
    for m, k, n in ((8192, 8192, 8192), (4096, 4096, 4096), (2048, 2048, 2048), (8192, 1024, 8192)):
        x, w, b = randn(m, k), randn(k, n) / k**0.5, randn(n)
        y = torch.empty(m, n, device="cuda", dtype=BF16)
        launch = kernel.launcher(132, (x, (128, 64)), (w, (64, 256)), (y, (64, 64)), b, m, k, n)

        def peer():
            return torch._addmm_activation(b, x, w, use_gelu=False)

        error = check(launch, y, torch.relu(x.float() @ w.float() + b.float()), 3e-3)
        times = medians_us({"minic": launch, "cuBLASLt": peer})
        yield f"gemm {m}x{k}x{n}", error, times, {"TFLOP/s": 2 * m * n * k / times["minic"] / 1e6}


def attention(minic, examples):
    kernel = Kernel(minic, examples / "attention_sm90.ir", "attention_128x128", 384, 163840)
    factor = torch.tensor([128**-0.5 * 1.4426950408889634], device="cuda")
    for rows, keys in ((16384, 16384), (8192, 8192), (16384, 1024)):
        q, k, v = randn(rows, 128), randn(keys, 128), randn(keys, 128)
        y = torch.empty_like(q)
        box = (128, 128)
        launch = kernel.launcher((rows + 127) // 128, (q, box), (k, box), (v, box), factor, y, rows, keys // 128)

        def peer():
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                return F.scaled_dot_product_attention(q[None, None], k[None, None], v[None, None])

        reference = F.scaled_dot_product_attention(*(t[None, None].float() for t in (q, k, v)))[0, 0]
        error = check(launch, y, reference, 4e-3)
        times = medians_us({"minic": launch, "cuDNN": peer})
        yield f"attention {rows}x{keys}", error, times, {"TFLOP/s": 4 * rows * keys * 128 / times["minic"] / 1e6}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("minic")
    parser.add_argument("what", nargs="*", default=["softmax", "gemm", "attention"])
    parser.add_argument("--examples", default=pathlib.Path(__file__).resolve().parents[2] / "examples" / "kernels", type=pathlib.Path)
    parser.add_argument("--json")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.zeros(1, device="cuda")
    rows = []
    for what in options.what:
        for name, error, times, rate in {"softmax": softmax, "gemm": gemm, "attention": attention}[what](options.minic, options.examples):
            ratios = {peer: round(time / times["minic"], 3) for peer, time in times.items() if peer != "minic"}
            rows.append({"case": name, "error": error, "us": times, "peer/minic": ratios, **rate})
            shown = ", ".join(f"{peer} {time:.1f}" for peer, time in times.items())
            print(f"{name}: us: {shown}; peer/minic {ratios}; {rate}; error {error:.1e}", flush=True)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    sys.exit(main())
