#!/usr/bin/env python3
"""Products of cuBLASLt against f64.

    PYTHONPATH=tools/python python3 test/gpu/check_cublaslt.py [--device auto|cpu|cuda:0] [--count N] [--seed N]

Draws sizes (odd ones too), types, transposes, batches and biases, compiles with matmul="cublaslt" and compares with float64, within the bound
of sums of the product's type in any order and one rounding. On a GPU each one also runs as a captured graph, three times with other inputs in the same
memory, and has to give the bits of a plain run; where torch computes the same, it must be within the bound too. Then: NaN and -0.0 through a relu behind the call, tensors with strides, empty results, and the error in a process
that cannot find the library.
On the interpreter ("cpu") the same runs by the meaning of the op.
"""
import os
import subprocess
import sys

import numpy as np

import minic
import products
from products import EPSILON, from_bits, graph_text, tensor, to_bits


class Call(products.Product):
    """A graph that is one call of the library, its inputs, and what it gives in f64."""

    def __init__(self, rng, large):
        super().__init__(rng)
        pick, most = self.pick, 1500 if large else 150
        size = lambda: int(pick(1, 2, 7, 8, 31, 64, 65, 128, rng.integers(1, most)))
        self.m, self.k, self.n = size(), size(), size()
        self.batch = pick((), (), (3,), (2, 2))
        self.w_batch = pick(self.batch, ())
        self.dtype, self.out = pick(("bf16", "bf16"), ("f16", "f16"), ("bf16", "f32"), ("f16", "f32"), ("f32", "f32"), ("f64", "f64"))
        self.x_across, self.w_across = bool(rng.random() < 0.4), bool(rng.random() < 0.4)
        self.bias = bool(rng.random() < 0.5)
        self.multiply(self.dtype, self.out)
        if self.bias:
            self.input("b", (self.n,), self.out)
            self.emit("v", f"broadcast %b, dims = [{len(self.batch) + 1}]", self.shape, self.out)
            self.emit("s", "add %p, %v", self.shape, self.out)
        self.text = self.text_of([("s" if self.bias else "p", self.out)])

    def fresh(self):
        """Other inputs of the same types."""
        return [to_bits(self.values(name, *how), how[1]) for name, how in self.drawn.items()]

    def wrong(self, got, inputs):
        """What is wrong with a result, or nothing; and its largest error in bounds."""
        x, w = (from_bits(values, self.dtype) for values in inputs[:2])
        x, w = (x.swapaxes(-1, -2) if self.x_across else x), (w.swapaxes(-1, -2) if self.w_across else w)
        value, spread = x @ w, np.abs(x) @ np.abs(w)
        if self.bias:
            bias = from_bits(inputs[2], self.out)
            value, spread = value + bias, spread + np.abs(bias)
        allowed = spread * products.chain_bound(self.k, "f32" if self.dtype != "f64" else "f64") + np.abs(value) * EPSILON[self.out] + 1e-30
        return products.beyond(from_bits(got, self.out).reshape(value.shape), value, allowed)


def numpy_of(result):
    if isinstance(result, np.ndarray):
        return result
    return result.view(__import__("torch").uint16).cpu().numpy() if "bfloat16" in str(result.dtype) else result.cpu().numpy()


def check_captured(product, executable):
    """The run as a graph, on other inputs in the same memory: it must give what a plain run gives."""
    import torch

    views = {"bf16": torch.bfloat16}
    on_gpu = lambda values, dtype: torch.from_numpy(values.copy()).cuda().view(views.get(dtype, None) or torch.from_numpy(values).dtype)
    dtypes = [dtype for _, dtype, _ in product.drawn.values()]
    tensors = [on_gpu(values, dtype) for values, dtype in zip(product.inputs.values(), dtypes)]
    make = lambda: torch.full(product.shape, float("nan"), dtype=on_gpu(to_bits(np.zeros(1), product.out), product.out).dtype, device="cuda")
    captured_result, plain_result = make(), make()
    captured = executable.capture(tensors, [captured_result])
    for _ in range(3):
        fresh = product.fresh()
        for tensor, values, dtype in zip(tensors, fresh, dtypes):
            tensor.copy_(on_gpu(values, dtype))
        torch.cuda.synchronize()
        captured.launch()
        executable.run(tensors, [plain_result])
        torch.cuda.synchronize()
        one, other = numpy_of(captured_result), numpy_of(plain_result)
        if one.tobytes() != other.tobytes():
            return "a captured run gives other bits"
        why, _ = product.wrong(one, fresh)
        if why:
            return "captured: " + why
    if product.bias or product.dtype != product.out:
        return ""  # torch rounds in between.
    x, w = (tensor.mT if turned else tensor for tensor, turned in zip(tensors, (product.x_across, product.w_across)))
    why, _ = product.wrong(numpy_of((x @ w).contiguous()), fresh)
    return "the bound is too narrow for torch: " + why if why else ""


def check_one(product, device):
    artifact = minic.compile(product.text, matmul="cublaslt", strides="dense")
    plan = minic.emit(product.text, "plan", matmul="cublaslt")
    if plan.count("library_call cublaslt") != 1 or "launch" in plan:
        return "the plan is not one call:\n" + plan, 0
    executable, inputs = artifact.load(device), list(product.inputs.values())
    got = np.asarray(executable(*inputs))
    why, far = product.wrong(got, inputs)
    if not why and np.asarray(executable(*inputs)).tobytes() != got.tobytes():
        why = "another run gives other bits"
    if not why and device != "cpu":
        why = check_captured(product, executable)
    return why, far


def check_relu(device):
    """A relu is a kernel behind the call: it keeps NaN, which the library's own loses at this shape in f16, and gives no -0.0."""
    m, k, n = 33, 70, 65
    lines = [f"%p = matmul %x, %w : {tensor((m, n), 'DT')}", f"%y = relu %p : {tensor((m, n), 'DT')}"]
    text = graph_text([("x", tensor((m, k), "DT")), ("w", tensor((k, n), "DT"))], [("y", tensor((m, n), "DT"))], lines, "y")
    failures = 0
    for dtype in ("bf16", "f16", "f32", "f64"):
        rng = np.random.default_rng(5)
        x, w = rng.standard_normal((m, k)), -np.abs(rng.standard_normal((k, n)))
        x[3, 5] = np.nan
        x[7, :] = 0  # Times negative numbers: sums of -0.0, or +0.0.
        executable = minic.compile(text.replace("DT", dtype), matmul="cublaslt").load(device)
        y = from_bits(executable(to_bits(x, dtype), to_bits(w, dtype)), dtype)
        good = bool(np.isnan(y[3]).all()) and not np.isnan(np.delete(y, 3, 0)).any() and not np.signbit(y[7]).any()
        failures += not good
        print(f"relu of NaN and of -0.0, {dtype}: {'right' if good else 'WRONG'}")
    return failures


def check_strides(device):
    """Operands that are no row-major tensors are copied before the call."""
    text = "graph @g(%x: tensor<MxKxf32>, %w: tensor<KxNxf32>) -> (y: tensor<MxNxf32>) where K >= 1 {\n"
    text += "  %y = matmul %x, %w : tensor<MxNxf32>\n  return %y\n}\n"
    executable = minic.compile(text, matmul="cublaslt").load(device)
    rng = np.random.default_rng(6)
    x, w = rng.standard_normal((37, 90)).astype(np.float32)[:, ::2], rng.standard_normal((50, 45)).astype(np.float32).T
    far = np.abs(np.asarray(executable(x, w)) - x.astype(np.float64) @ w.astype(np.float64)).max()
    empty = np.asarray(executable(np.zeros((0, 4), np.float32), np.zeros((4, 3), np.float32)))
    good = far < 1e-4 and empty.shape == (0, 3)
    print(f"strides and empty results: {'right' if good else 'WRONG'}")
    return not good


def check_missing(device):
    """In a process that finds no library the error says what was looked for, and how to go on."""
    if device == "cpu":
        return 0
    program = (
        "import minic, numpy as np\n"
        "text = 'graph @g(%x: tensor<8x8xf32>) -> (y: tensor<8x8xf32>) {\\n  %y = matmul %x, %x : tensor<8x8xf32>\\n  return %y\\n}\\n'\n"
        "x = np.ones((8, 8), np.float32)\n"
        "try:\n"
        "    minic.compile(text, matmul='cublaslt').load('cuda')(x)\n"
        "    print('FOUND')\n"
        "except minic.MinicError as error:\n"
        "    print(error)\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, "LD_LIBRARY_PATH": ""})
    print("without LD_LIBRARY_PATH:", result.stdout.strip() or result.stderr.strip())
    found = "FOUND" in result.stdout  # It may be installed where the linker looks by itself.
    return 0 if found or ("E0907" in result.stdout and "--matmul=generated" in result.stdout) else 1


def main():
    options = products.arguments(__doc__, 150).parse_args()
    if options.device != "cpu":
        import torch  # It brings a cuBLASLt, which minic then finds by its name.

        torch.backends.cuda.matmul.allow_tf32 = False
        print("torch", torch.__version__, "with", torch.cuda.get_device_name())
    worst = 0.0

    def check(product, _):
        nonlocal worst
        why, far = check_one(product, options.device)
        worst = max(worst, far)
        return [why] if why else []

    failed = products.check_all(options, lambda rng: Call(rng, options.large), check)
    print(f"{options.count - failed} of {options.count} products right, the worst at {worst:.3g} of its bound")
    failed += check_relu(options.device) + check_strides(options.device) + check_missing(options.device)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
