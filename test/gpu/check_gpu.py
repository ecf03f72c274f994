#!/usr/bin/env python3
"""Runs minic's kernels on a GPU and checks them against numpy in f64 and, bit for bit, against the interpreter.

    test/gpu/check_gpu.py path/to/minic [--examples DIR] [--only WORD] [--json OUT]

Needs numpy and a GPU. Prints one line per case and ends with `N passed, N failed, N known misses`. A known miss asks what
is wanted, falls short of it as docs/limits.md says, and fails the check once it does not.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

rng = np.random.default_rng(20261129)


def softmax64(x):
    x = x.astype(np.float64)
    with np.errstate(over="ignore"):
        e = np.exp(x - x.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)


def to_bf16(x):
    """Rounds to nearest even; numpy has no bf16, so the bits as two bytes, which is how minic writes and reads them."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16).view("V2")


def from_bf16(x):
    return (x.view(np.uint16).astype(np.uint32) << 16).view(np.float32)


class Checker:
    def __init__(self, minic, scratch, only=""):
        self.minic, self.scratch, self.only, self.rows = minic, pathlib.Path(scratch), only, []

    def run(self, graph, inputs, outputs, *flags):
        """Results of `minic run` as arrays."""
        command = [self.minic, "run", str(graph), *flags]
        for name, array in inputs.items():
            np.save(self.scratch / f"{name}.npy", array)
            command += ["--input", f"{name}={self.scratch / name}.npy"]
        for name in outputs:
            command += ["--output", f"{name}={self.scratch / name}.out.npy"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if done.returncode:
            raise RuntimeError(f"exit {done.returncode}: {done.stderr[:2000]}")
        return [np.load(self.scratch / f"{name}.out.npy") for name in outputs]

    def record(self, name, ok, known_miss=False, **figures):
        outcome = ("UNEXPECTED PASS" if ok else "miss") if known_miss else ("pass" if ok else "FAIL")
        self.rows.append({"case": name, "outcome": outcome, **figures})
        print(outcome, name, figures, flush=True)

    def case(self, name, body):
        if self.only not in name:
            return
        try:
            body()
        except Exception as error:  # A case that cannot run has failed; the others still say something.
            self.record(name, False, error=str(error)[:2000])


def graph_file(checker, name, text):
    path = checker.scratch / f"{name}.ir"
    path.write_text(text)
    return path


REGIONS = {
    "logsumexp": ("""graph @g(%x: tensor<MxNxf32>) -> (y: tensor<Mxf32>) {
  %m = reduce max %x, axes = [1] : tensor<Mxf32>
  %mb = broadcast %m, dims = [0] : tensor<MxNxf32>
  %z = sub %x, %mb : tensor<MxNxf32>
  %e = exp %z : tensor<MxNxf32>
  %s = reduce sum %e, axes = [1] : tensor<Mxf32>
  %l = log %s : tensor<Mxf32>
  %y = add %l, %m : tensor<Mxf32>
  return %y
}""", ["x"], ["y"]),
    "maxmin": ("""graph @g(%x: tensor<MxNxf32>) -> (y: tensor<Mxf32>) {
  %a = reduce max %x, axes = [1] : tensor<Mxf32>
  %b = reduce min %x, axes = [1] : tensor<Mxf32>
  %y = sub %a, %b : tensor<Mxf32>
  return %y
}""", ["x"], ["y"]),
    "ratio": ("""graph @g(%x: tensor<MxNxf32>, %w: tensor<MxNxf32>) -> (q: tensor<Mxf32>, b: tensor<Mxf32>) {
  %xy = mul %x, %w : tensor<MxNxf32>
  %yy = mul %w, %w : tensor<MxNxf32>
  %a = reduce sum %xy, axes = [1] : tensor<Mxf32>
  %b = reduce sum %yy, axes = [1] : tensor<Mxf32>
  %q = div %a, %b : tensor<Mxf32>
  return %q, %b
}""", ["x", "w"], ["q", "b"]),
    "columns": ("""graph @g(%x: tensor<NxMxf32>) -> (y: tensor<NxMxf32>) {
  %m = reduce max %x, axes = [0] : tensor<Mxf32>
  %mb = broadcast %m, dims = [1] : tensor<NxMxf32>
  %z = sub %x, %mb : tensor<NxMxf32>
  %e = exp %z : tensor<NxMxf32>
  %s = reduce sum %e, axes = [0] : tensor<Mxf32>
  %sb = broadcast %s, dims = [1] : tensor<NxMxf32>
  %y = div %e, %sb : tensor<NxMxf32>
  return %y
}""", ["x"], ["y"]),
    "matmul_exp_sum": ("""graph @g(%x: tensor<MxKxf32>, %w: tensor<KxNxf32>) -> (e: tensor<MxNxf32>, s: tensor<Mxf32>) {
  %a = matmul %x, %w : tensor<MxNxf32>
  %e = exp %a : tensor<MxNxf32>
  %s = reduce sum %e, axes = [1] : tensor<Mxf32>
  return %e, %s
}""", ["x", "w"], ["e", "s"]),
    "long_rows": ("""graph @g(%x: tensor<MxNxf32>) -> (y: tensor<Mxf32>, z: tensor<f32>) {
  %y = reduce sum %x, axes = [1] : tensor<Mxf32>
  %z = reduce max %x, axes = [0, 1] : tensor<f32>
  return %y, %z
}""", ["x"], ["y", "z"]),
    "bf16": ("""graph @g(%x: tensor<MxNxf32>) -> (y: tensor<MxNxf32>) {
  %b = convert %x : tensor<MxNxbf16>
  %r = relu %b : tensor<MxNxbf16>
  %s = add %r, %b : tensor<MxNxbf16>
  %y = convert %s : tensor<MxNxf32>
  return %y
}""", ["x"], ["y"]),
    "f16_matmul": ("""graph @g(%x: tensor<MxKxf32>, %w: tensor<KxNxf32>) -> (y: tensor<MxNxf32>) {
  %a = convert %x : tensor<MxKxf16>
  %b = convert %w : tensor<KxNxf16>
  %y = matmul %a, %b : tensor<MxNxf32>
  return %y
}""", ["x", "w"], ["y"]),
    "f64": ("""graph @g(%x: tensor<MxNxf32>) -> (y: tensor<Mxf32>) {
  %d = convert %x : tensor<MxNxf64>
  %e = exp %d : tensor<MxNxf64>
  %l = log %e : tensor<MxNxf64>
  %s = reduce sum %l, axes = [1] : tensor<Mxf64>
  %y = convert %s : tensor<Mxf32>
  return %y
}""", ["x"], ["y"]),
    "math": ("""graph @g(%x: tensor<MxNxf32>) -> (e: tensor<MxNxf32>, l: tensor<MxNxf32>, r: tensor<MxNxf32>, q: tensor<MxNxf32>) {
  %e = exp %x : tensor<MxNxf32>
  %l = log %e : tensor<MxNxf32>
  %r = rsqrt %e : tensor<MxNxf32>
  %q = div %x, %e : tensor<MxNxf32>
  return %e, %l, %r, %q
}""", ["x"], ["e", "l", "r", "q"]),
}


def shapes_of(name, n):
    m, k = 5, 19
    if name == "columns":
        return {"x": (n, m)}
    if name in ("matmul_exp_sum", "f16_matmul"):
        return {"x": (m, k), "w": (k, n)}
    if name == "long_rows":
        return {"x": (3, n * 13 + 1)}
    return {"x": (m, n), "w": (m, n)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("minic")
    parser.add_argument("--examples", default=str(pathlib.Path(__file__).resolve().parents[2] / "examples"))
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    parser.add_argument("--json")
    options = parser.parse_args()
    examples = pathlib.Path(options.examples)
    with tempfile.TemporaryDirectory() as scratch:
        c = Checker(options.minic, scratch, options.only)
        gpu = ("--device=cuda", "--poison")

        def softmax(m, n, scale):
            x = (rng.uniform(-1, 1, (m, n)) * scale).astype(np.float32)
            want = softmax64(x)
            for name, mode in (("softmax", "fused"), ("softmax", "eager"), ("softmax_f64", "fused")):
                (y,) = c.run(examples / f"{name}.ir", {"x": x}, ["y"], *gpu, f"--mode={mode}")
                error = float(np.abs(y - want).max())
                sums = float(np.abs(y.astype(np.float64).sum(axis=1) - 1).max())
                ok = np.allclose(y, want, rtol=1e-5, atol=1e-8) and sums <= 2.4e-7
                c.record(f"{name} {m}x{n} {mode}", ok, max_error=error, row_sum_error=sums)
                # Half a unit in the last place of results in [0.5, 1) is 2.98e-8: one rounding. f32 has three (exp, sum, division).
                near_one = scale > 1 and name == "softmax" and n in (3, 31, 32, 33)
                c.record(f"{name} {m}x{n} {mode} within 3e-8", error <= 3e-8, known_miss=near_one, max_error=error)

        for m, n in [(1823, 781), (4096, 1024), (128, 1024), (4096, 256), (4096, 781)]:
            c.case(f"softmax {m}x{n}", lambda: softmax(m, n, 1))
        for n in (1, 3, 31, 32, 33, 1023, 1024, 8192, 20000):
            c.case(f"softmax 7x{n}", lambda: softmax(7, n, 100))

        # Rows of known length, each in the registers of a warp, a CTA or a cluster; what special values do to a row they do to all of it.
        def known_rows(m, n, dtype, numerics):
            x = (rng.standard_normal((m, n)) * 3).astype(np.float32)
            x = from_bf16(to_bf16(x)) if dtype == "bf16" else x
            if m >= 6:
                x[1, : n // 2] = -np.inf
                x[2, n // 4 :] = -np.inf
                x[3] = -np.inf
                x[4, n - 1] = np.inf
                x[5, n // 3] = np.nan
            with np.errstate(invalid="ignore"):
                want = softmax64(x)
            text = (examples / "softmax.ir").read_text().replace("MxN", f"{m}x{n}").replace("<Mx", f"<{m}x").replace("f32", dtype)
            path = graph_file(c, f"rows{m}x{n}{dtype}", text)
            (y,) = c.run(path, {"x": to_bf16(x) if dtype == "bf16" else x}, ["y"], *gpu, f"--numerics={numerics}")
            y, within = (from_bf16(y), 1.2e-2 if numerics == "exact" else 4e-3) if dtype == "bf16" else (y, 2e-6)
            error = float(np.nanmax(np.abs(y - want) / np.maximum(want, 1e-30)))
            ok = np.allclose(y, want, rtol=within, atol=1e-30, equal_nan=True)
            c.record(f"rows {m}x{n} {dtype} {numerics}", ok, relative_error=error)

        for n in (1, 5, 64, 96, 781, 1023, 1024, 1025, 2047, 4095, 4096, 5000, 8192, 8193, 16384, 32768, 65541, 262144, 600000):
            for dtype in ("f32", "bf16"):
                c.case(f"rows {n} {dtype}", lambda: known_rows(7 if n > 5000 else 301, n, dtype, "default"))
            c.case(f"rows {n} exact", lambda: known_rows(7, n, "f32", "exact"))
        for m in (1, 2, 3, 131, 133, 5000):
            c.case(f"rows {m}x1024", lambda: known_rows(m, 1024, "f32", "default"))

        def minus_ones():
            (y,) = c.run(examples / "softmax.ir", {"x": np.full((3, 781), -1, np.float32)}, ["y"], *gpu)
            sums = y.astype(np.float64).sum(axis=1)
            c.record("softmax of -1", np.abs(sums - 1).max() < 1e-6 and np.abs(y - 0.001280409731).max() < 1e-9, sums=sums.tolist())
            y, s = c.run(examples / "wrong_padding.ir", {}, ["y", "s"], *gpu)
            c.record("wrong padding", np.abs(s - 0.541780772).max() < 1e-6 and np.abs(y - 0.000693701).max() < 1e-9, s=s.tolist())

        c.case("softmax of -1", minus_ones)

        def vector_add(n):
            x, y = (rng.uniform(-1, 1, n).astype(np.float32) for _ in range(2))
            (z,) = c.run(examples / "vector_add.ir", {"x": x, "y": y}, ["z"], *gpu)
            c.record(f"vector add {n}", np.array_equal(z, x + y))

        for n in (0, 1, 10, 255, 256, 257, 98432):
            c.case(f"vector add {n}", lambda: vector_add(n))

        def seeds():
            x = np.array([[1, -2, 3], [0, 1, -1]], np.float32)
            w = np.array([[1, 2], [0, -1], [-1, 1]], np.float32)
            (y,) = c.run(examples / "linear_relu.ir", {"x": x, "w": w, "b": np.array([0.5, -1], np.float32)}, ["y"], *gpu)
            c.record("linear 2x3x2", np.array_equal(y, [[0, 6], [1.5, 0]]), y=y.tolist())

        c.case("linear 2x3x2", seeds)

        def linear(n, k, m):
            x, w, b = (rng.uniform(-1, 1, s).astype(np.float32) for s in ((n, k), (k, m), (m,)))
            want = np.maximum(x.astype(np.float64) @ w.astype(np.float64) + b, 0)
            for mode in ("fused", "eager"):
                (y,) = c.run(examples / "linear_relu.ir", {"x": x, "w": w, "b": b}, ["y"], *gpu, f"--mode={mode}")
                c.record(f"linear {n}x{k}x{m} {mode}", np.allclose(y, want, rtol=1e-4, atol=1e-5 * max(1, k / 64)),
                         max_error=float(np.abs(y - want).max()))

        for shape in ((32, 16, 8), (33, 16, 65), (100, 10, 100), (1, 1, 1), (129, 65, 17), (1000, 777, 1111), (2048, 2048, 2048), (64, 0, 64)):
            c.case(f"linear {shape}", lambda: linear(*shape))

        # The interpreter runs the machine level that the GPU runs: equal bits, in every numerics mode.
        def same_bits(name, n, numerics, mode):
            text, ins, outs = REGIONS[name]
            path = graph_file(c, name, text)
            inputs = {i: (rng.uniform(-1, 1, shapes_of(name, n)[i]) * 3).astype(np.float32) for i in ins}
            flags = (f"--numerics={numerics}", f"--mode={mode}", "--target=sm_90a")
            got = c.run(path, inputs, outs, *gpu, *flags)
            want = c.run(path, inputs, outs, "--device=cpu", *flags)
            ok = all(g.tobytes() == w.tobytes() or np.array_equal(g, w, equal_nan=True) for g, w in zip(got, want))
            c.record(f"bits {name} N={n} {numerics} {mode}", ok)

        for name in REGIONS:
            for n in (0, 1, 33, 781):
                for numerics, mode in (("default", "fused"), ("exact", "fused"), ("exact", "eager")):
                    c.case(f"bits {name} N={n} {numerics} {mode}", lambda: same_bits(name, n, numerics, mode))

        def special_values():
            x = np.array([[np.nan, np.inf, -np.inf, -1, -0.0, 0.0, 1.4e-45, -100, -104, 88.7, 88.73, 1e-40, -87.5]], np.float32)
            path = graph_file(c, "special", REGIONS["math"][0])
            got = c.run(path, {"x": x}, ["e", "l", "r", "q"], *gpu)
            want = c.run(path, {"x": x}, ["e", "l", "r", "q"], "--device=cpu")
            c.record("special values", all(np.array_equal(g, w, equal_nan=True) for g, w in zip(got, want)), e=got[0].tolist())

        c.case("special values", special_values)

        # Integers as they wrap, in the maxima and minima of three that ptxas merges.
        def integers():
            low = np.iinfo(np.int32).min
            x, y, z = (rng.integers(low, -low, 4097, dtype=np.int32) for _ in range(3))
            x[:3] = low, -1, 5
            text = """minic 1
graph @integers(%x: tensor<Nxi32>, %y: tensor<Nxi32>, %z: tensor<Nxi32>) -> (a: tensor<Nxi32>, b: tensor<Nxi32>, c: tensor<Nxi32>, m: tensor<i32>) {
  %a = abs %x : tensor<Nxi32>
  %n = neg %y : tensor<Nxi32>
  %b0 = max %x, %n : tensor<Nxi32>
  %b = max %b0, %z : tensor<Nxi32>
  %c0 = min %x, %n : tensor<Nxi32>
  %c = min %c0, %z : tensor<Nxi32>
  %m = reduce max %a, axes = [0] : tensor<i32>
  return %a, %b, %c, %m
}
"""
            a, b, cc, m = c.run(graph_file(c, "integers", text), {"x": x, "y": y, "z": z}, ["a", "b", "c", "m"], *gpu)
            with np.errstate(over="ignore"):
                want = np.abs(x), np.maximum(np.maximum(x, -y), z), np.minimum(np.minimum(x, -y), z), np.abs(x).max()
            ok = all(np.array_equal(got, right) for got, right in zip((a, b, cc, m), want))
            c.record("integers", ok, m=int(m), expected=int(want[3]))

        c.case("integers", integers)

        # Kernels by hand, through tensor maps and dynamic shared memory; 20 runs give the same bits.
        def by_hand(name, inputs, want, tolerance):
            runs = [c.run(examples / "kernels" / f"{name}.ir", inputs, ["y"], *gpu)[0] for _ in range(20)]
            y = from_bf16(runs[0])
            error = float(np.linalg.norm(y - want) / np.linalg.norm(want))
            ok = error < tolerance and all(run.tobytes() == runs[0].tobytes() for run in runs)
            c.record(f"{name} {' '.join('x'.join(map(str, i.shape)) for i in inputs.values())}", ok, relative_error=error)

        def kernels():
            x = to_bf16(rng.standard_normal((4097, 1024)) * 3)
            by_hand("row_softmax_warp", {"x": x}, softmax64(from_bf16(x)), 3e-3)
            x = to_bf16(rng.standard_normal((301, 32768)) * 3)
            by_hand("row_softmax_cluster", {"x": x}, softmax64(from_bf16(x)), 3e-3)
            for m, k, n in ((128, 64, 256), (1000, 776, 1088), (2048, 2048, 2048), (8, 8, 64)):
                x, w, b = (to_bf16(rng.standard_normal(s)) for s in ((m, k), (k, n), (n,)))
                want = np.maximum(from_bf16(x).astype(np.float64) @ from_bf16(w).astype(np.float64) + from_bf16(b), 0)
                by_hand("gemm_bias_relu_sm90", {"x": x, "w": w, "b": b}, want, 3e-3)
            for m, n in ((128, 128), (1000, 896), (2048, 2048)):
                q, k, v = (to_bf16(rng.standard_normal((s, 128))) for s in (m, n, n))
                scores = from_bf16(q).astype(np.float64) @ from_bf16(k).astype(np.float64).T / 128**0.5
                by_hand("attention_sm90", {"q": q, "k": k, "v": v}, softmax64(scores) @ from_bf16(v), 4e-3)

        c.case("kernels by hand", kernels)

        # Written through one layout and read through another, so that each thread reads what others wrote.
        def swizzled(dtype, numpy_type, swizzle):
            extents = f"64x128x{dtype}"
            text = f"""minic 1
module target = sm_90a
#rows = layout<reg = [1:4@1, 0:16@4], lane = [1:32@4], warp = [0:4@1]>
#columns = layout<reg = [1:2@1, 0:2@8, 1:16@8], lane = [1:4@2, 0:8@1], warp = [0:4@16]>
kernel @k(%x: buffer<{extents}>, %y: buffer<{extents}>) at machine, threads = 128 {{
  %c0 = constant 0 : index
  %s = alloc_shared : smem<{extents}, #swizzle{swizzle}>
  %t = load %x, %c0, %c0, mask = [], vec = 1 : tile<{extents}, #rows>
  shared_store %t, %s
  barrier
  %u = shared_load %s : tile<{extents}, #columns>
  store %u, %y, %c0, %c0, mask = [], vec = 1
  return
}}
plan @p(%x: buffer<{extents}>) -> (y: buffer<{extents}>) {{
  %y = alloc : buffer<{extents}>
  launch @k(%x, %y), grid = [1]
  return %y
}}
"""
            x = rng.standard_normal((64, 128)).astype(numpy_type)
            (y,) = c.run(graph_file(c, f"swizzled_{dtype}_{swizzle}", text), {"x": x}, ["y"], *gpu)
            c.record(f"swizzled {dtype} {swizzle}", x.tobytes() == y.tobytes())

        for dtype, numpy_type in (("f16", np.float16), ("f32", np.float32), ("f64", np.float64)):
            for swizzle in (32, 64, 128):
                c.case(f"swizzled {dtype} {swizzle}", lambda: swizzled(dtype, numpy_type, swizzle))

        if options.json:
            pathlib.Path(options.json).write_text(json.dumps(c.rows, indent=1))
        missed = sum(row["outcome"] == "miss" for row in c.rows)
        passed = sum(row["outcome"] == "pass" for row in c.rows)
        failed = len(c.rows) - passed - missed
        print(f"{passed} passed, {failed} failed, {missed} known misses")
        return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
