#!/usr/bin/env python3
"""Products of cuBLASLt against f64.

    PYTHONPATH=tools/python python3 test/gpu/check_cublaslt.py [--device auto|cpu|cuda:0] [--count N] [--seed N]

Draws sizes (odd ones too), types, transposes, batches and biases, compiles with matmul="cublaslt" and compares with float64, within the bound
of sums of the product's type in any order and one rounding. On a GPU each one also runs as a captured graph, three times with other inputs in the same
memory, and has to give the bits of a plain run; where torch computes the same, it must be within the bound too. Then: NaN and -0.0 through a relu behind the call, tensors with strides, empty results, and the error in a process
that cannot find the library.
On the interpreter ("cpu") the same runs by the meaning of the op.
"""
import argparse
import os
import subprocess
import sys

import numpy as np

import minic

EPSILON = {"bf16": 2.0**-8, "f16": 2.0**-11, "f32": 2.0**-24, "f64": 2.0**-53}
NUMPY = {"f16": np.float16, "f32": np.float32, "f64": np.float64}


def to_bits(values, dtype):
    if dtype != "bf16":
        return np.ascontiguousarray(values).astype(NUMPY[dtype])
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return np.where(np.isnan(values), 0x7FC0, (bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def from_bits(array, dtype):
    if dtype != "bf16":
        return np.asarray(array).astype(np.float64)
    return (np.ascontiguousarray(array).view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)


class Product:
    """A graph that is one call of the library, its inputs, and what it gives in f64."""

    def __init__(self, rng, large):
        pick = lambda *choices: choices[rng.integers(len(choices))]
        most = 1500 if large else 150
        size = lambda: int(pick(1, 2, 7, 8, 31, 64, 65, 128, rng.integers(1, most)))
        self.m, self.k, self.n = size(), size(), size()
        self.batch = pick((), (), (3,), (2, 2))
        self.w_batch = pick(self.batch, ())
        self.dtype, self.out = pick(("bf16", "bf16"), ("f16", "f16"), ("bf16", "f32"), ("f16", "f32"), ("f32", "f32"), ("f64", "f64"))
        self.x_across, self.w_across = bool(rng.random() < 0.4), bool(rng.random() < 0.4)
        self.bias = bool(rng.random() < 0.5)
        self.inputs = self.draw(rng)
        self.text = self.graph()

    def draw(self, rng):
        across = lambda batch, rows, columns, turned: (*batch, columns, rows) if turned else (*batch, rows, columns)
        x = rng.standard_normal(across(self.batch, self.m, self.k, self.x_across))
        w = rng.standard_normal(across(self.w_batch, self.k, self.n, self.w_across)) * self.k**-0.5
        inputs = [to_bits(x, self.dtype), to_bits(w, self.dtype)]
        return inputs + [to_bits(rng.standard_normal(self.n), self.out)] if self.bias else inputs

    def graph(self):
        shape = (*self.batch, self.m, self.n)
        tensor = lambda sizes, dtype: f"tensor<{'x'.join(map(str, sizes))}x{dtype}>"
        params = [f"%x: {tensor(self.inputs[0].shape, self.dtype)}", f"%w: {tensor(self.inputs[1].shape, self.dtype)}"]
        lines, names = [], ["x", "w"]
        for i, (batch, turned) in enumerate(((self.batch, self.x_across), (self.w_batch, self.w_across))):
            if turned:
                sizes = (*batch, self.m, self.k) if i == 0 else (*batch, self.k, self.n)
                axes = [*range(len(batch)), len(batch) + 1, len(batch)]
                lines.append(f"%t{i} = transpose %{names[i]}, perm = {axes} : {tensor(sizes, self.dtype)}")
                names[i] = f"t{i}"
        lines.append(f"%p = matmul %{names[0]}, %{names[1]} : {tensor(shape, self.out)}")
        last = "p"
        if self.bias:
            params.append(f"%b: {tensor((self.n,), self.out)}")
            lines.append(f"%v = broadcast %b, dims = [{len(self.batch) + 1}] : {tensor(shape, self.out)}")
            lines.append(f"%s = add %p, %v : {tensor(shape, self.out)}")
            last = "s"
        return f"graph @g({', '.join(params)}) -> (y: {tensor(shape, self.out)}) {{\n  " + "\n  ".join(lines) + f"\n  return %{last}\n}}\n"

    def wrong(self, got, inputs):
        """What is wrong with a result, or nothing; and its largest error in bounds."""
        x, w = (from_bits(values, self.dtype) for values in inputs[:2])
        x, w = (x.swapaxes(-1, -2) if self.x_across else x), (w.swapaxes(-1, -2) if self.w_across else w)
        value, spread = x @ w, np.abs(x) @ np.abs(w)
        if self.bias:
            bias = from_bits(inputs[2], self.out)
            value, spread = value + bias, spread + np.abs(bias)
        sums = "f32" if self.dtype != "f64" else "f64"
        # Tensor cores align the products of a few elements before they add and cut what is below.
        bound = spread * (self.k + 8) * EPSILON[sums] + np.abs(value) * EPSILON[self.out] + 1e-30
        far = np.abs(from_bits(got, self.out).reshape(value.shape) - value) / bound
        return (f"{int((far > 1).sum())} of {far.size} beyond the bound, by up to {far.max():.3g}" if far.max() > 1 else ""), far.max()


def numpy_of(result):
    if isinstance(result, np.ndarray):
        return result
    return result.view(__import__("torch").uint16).cpu().numpy() if "bfloat16" in str(result.dtype) else result.cpu().numpy()


def check_captured(product, executable, rng):
    """The run as a graph, on other inputs in the same memory: it must give what a plain run gives."""
    import torch

    views = {"bf16": torch.bfloat16}
    on_gpu = lambda values, dtype: torch.from_numpy(values.copy()).cuda().view(views.get(dtype, None) or torch.from_numpy(values).dtype)
    dtypes = [product.dtype, product.dtype, product.out]
    tensors = [on_gpu(values, dtype) for values, dtype in zip(product.inputs, dtypes)]
    shape = (*product.batch, product.m, product.n)
    make = lambda: torch.full(shape, float("nan"), dtype=on_gpu(to_bits(np.zeros(1), product.out), product.out).dtype, device="cuda")
    captured_result, plain_result = make(), make()
    captured = executable.capture(tensors, [captured_result])
    for _ in range(3):
        fresh = product.draw(rng)
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


def check_one(product, device, rng):
    artifact = minic.compile(product.text, matmul="cublaslt", strides="dense")
    plan = minic.emit(product.text, "plan", matmul="cublaslt")
    if plan.count("library_call cublaslt") != 1 or "launch" in plan:
        return "the plan is not one call:\n" + plan, 0
    executable = artifact.load(device)
    got = np.asarray(executable(*product.inputs))
    why, far = product.wrong(got, product.inputs)
    if not why and np.asarray(executable(*product.inputs)).tobytes() != got.tobytes():
        why = "another run gives other bits"
    if not why and device != "cpu":
        why = check_captured(product, executable, rng)
    return why, far


def check_relu(device):
    """A relu is a kernel behind the call: it keeps NaN, which the library's own loses at this shape in f16, and gives no -0.0."""
    m, k, n = 33, 70, 65
    text = f"graph @g(%x: tensor<{m}x{k}xDT>, %w: tensor<{k}x{n}xDT>) -> (y: tensor<{m}x{n}xDT>) {{\n"
    text += f"  %p = matmul %x, %w : tensor<{m}x{n}xDT>\n  %y = relu %p : tensor<{m}x{n}xDT>\n  return %y\n}}\n"
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
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--large", action="store_true")
    options = parser.parse_args()
    if options.device != "cpu":
        import torch  # It brings a cuBLASLt, which minic then finds by its name.

        torch.backends.cuda.matmul.allow_tf32 = False
        print("torch", torch.__version__, "with", torch.cuda.get_device_name())
    failed, worst = 0, 0.0
    for index in range(options.count):
        rng = np.random.default_rng([options.seed, index])
        product = Product(rng, options.large)
        try:
            why, far = check_one(product, options.device, rng)
            worst = max(worst, far)
        except minic.MinicError as error:
            why = str(error)
        if why:
            failed += 1
            print(f"seed {options.seed}, index {index}: {why}\n{product.text}", flush=True)
    print(f"{options.count - failed} of {options.count} products right, the worst at {worst:.3g} of its bound")
    failed += check_relu(options.device) + check_strides(options.device) + check_missing(options.device)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
