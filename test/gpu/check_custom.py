#!/usr/bin/env python3
"""Custom ops beside built-in ones, against NumPy: kernels that are IR and kernels that are PTX.

    PYTHONPATH=tools/python python3 test/gpu/check_custom.py [--device cuda:0|cpu]

On the interpreter what the ops mean is evaluated where the kernel is PTX. Sizes are odd, one and empty, also several in one graph; operands are
views of other tensors, and hold infinities, NaN and -0.0.
"""
import argparse
import math
import pathlib
import sys

import numpy as np

import minic

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
OPS = {"scaled_gelu": (EXAMPLES / "custom_op.ir").read_text(), "scaled_relu": (EXAMPLES / "custom_ptx.ir").read_text()}
# y = the sum of each row in f32, by a CTA of 128 threads through dynamic shared memory; z = x without it.
CENTER = """
custom @center(%x: tensor<MxNxf32>) -> (y: tensor<Mxf32>, z: tensor<MxNxf32>), kernel = @center_ptx {
  %y = reduce sum %x, axes = [1] : tensor<Mxf32>
  %b = broadcast %y, dims = [0]  : tensor<MxNxf32>
  %z = sub %x, %b                : tensor<MxNxf32>
  return %y, %z
}
kernel @center_ptx(%x: buffer<MxNxf32>, %y: buffer<Mxf32>, %z: buffer<MxNxf32>) at machine, threads = 128 {
  %p = program_id grid = [M] : index
  ptx "center", sizes = [N], shared = 512, text = "
.version 7.0
.target sm_80
.address_size 64
.extern .shared .align 16 .b8 room[];
.visible .entry center(.param .u64 x, .param .u64 y, .param .u64 z, .param .u32 n)
{
  .reg .pred %p;
  .reg .b32 %r<8>;
  .reg .b64 %a<8>;
  .reg .f32 %f<3>;
  mov.u32 %r0, %ctaid.x;
  mov.u32 %r1, %tid.x;
  ld.param.u32 %r2, [n];
  mul.wide.u32 %a0, %r0, %r2;
  shl.b64 %a0, %a0, 2;
  ld.param.u64 %a1, [x];
  ld.param.u64 %a2, [z];
  add.u64 %a1, %a1, %a0;
  add.u64 %a2, %a2, %a0;
  mov.f32 %f0, 0f00000000;
  mov.u32 %r3, %r1;
gather:
  setp.ge.u32 %p, %r3, %r2;
  @%p bra gathered;
  mul.wide.u32 %a3, %r3, 4;
  add.u64 %a3, %a1, %a3;
  ld.global.f32 %f1, [%a3];
  add.f32 %f0, %f0, %f1;
  add.u32 %r3, %r3, 128;
  bra gather;
gathered:
  mov.u32 %r4, room;
  shl.b32 %r5, %r1, 2;
  add.u32 %r5, %r4, %r5;
  st.shared.f32 [%r5], %f0;
  bar.sync 0;
  mov.f32 %f0, 0f00000000;
  mov.u32 %r6, 0;
sum:
  ld.shared.f32 %f1, [%r4];
  add.f32 %f0, %f0, %f1;
  add.u32 %r4, %r4, 4;
  add.u32 %r6, %r6, 1;
  setp.lt.u32 %p, %r6, 128;
  @%p bra sum;
  setp.ne.u32 %p, %r1, 0;
  @%p bra scatter;
  ld.param.u64 %a4, [y];
  mul.wide.u32 %a5, %r0, 4;
  add.u64 %a4, %a4, %a5;
  st.global.f32 [%a4], %f0;
scatter:
  setp.ge.u32 %p, %r1, %r2;
  @%p bra done;
  mul.wide.u32 %a3, %r1, 4;
  add.u64 %a6, %a1, %a3;
  add.u64 %a7, %a2, %a3;
  ld.global.f32 %f1, [%a6];
  sub.f32 %f1, %f1, %f0;
  st.global.f32 [%a7], %f1;
  add.u32 %r1, %r1, 128;
  bra scatter;
done:
  ret;
}
"
  return
}
"""

SIZES = [(1, 1, 1), (3, 5, 7), (64, 32, 1024), (5, 16, 1025), (130, 72, 2049), (0, 4, 8), (7, 3, 256)]


def gelu(x):
    erf = np.vectorize(math.erf, otypes=["float64"])
    return 0.5 * x * (1 + erf(x / np.sqrt(2)))


def softmax(x):
    e = np.exp(x - x.max(1, keepdims=True)) if x.size else x
    return e / e.sum(1, keepdims=True)


MEANINGS = {"scaled_gelu": lambda x, s: gelu(x) * s, "scaled_relu": lambda x, s: np.maximum(x, 0) * s}


def declarations(op):
    """Without the example's own graph."""
    return OPS[op][: OPS[op].index("graph @")].replace("minic 1\n", "", 1)


class Checks:
    def __init__(self, device):
        self.device, self.failures, self.count = device, 0, 0

    def load(self, text, **more):
        return minic.compile(text, device=self.device, **more).load(self.device)

    def check(self, name, got, expected, rtol=2e-5, atol=2e-6):
        self.count += 1
        expected = np.asarray(expected)
        if got.shape == expected.shape and np.allclose(got, expected, rtol=rtol, atol=atol, equal_nan=True):
            return
        self.failures += 1
        print(f"{name}: got {np.asarray(got).ravel()[:8]}, expected {expected.ravel()[:8]}")


def run(checks):
    random = np.random.default_rng(1)

    def normal(*shape):
        return random.standard_normal(shape).astype("float32")

    for op, meaning in MEANINGS.items():
        # Between a product and a softmax, as the examples have it: one artifact for all sizes.
        gate = checks.load(OPS[op])
        for m, k, n in SIZES:
            x, w, s = normal(m, k), normal(k, n), normal(n)
            h = x.astype("float64") @ w.astype("float64")
            checks.check(f"{op} {m}x{k}x{n}", gate(x, w, s), softmax(meaning(h, s)), rtol=1e-3, atol=1e-5)
        # Alone, on special values and on views.
        alone = checks.load(f"graph @g(%x: tensor<AxBxf32>, %s: tensor<Bxf32>) -> (y: tensor<AxBxf32>) {{\n"
                            f"  %y = custom @{op}(%x, %s) : tensor<AxBxf32>\n  return %y\n}}", customs=[declarations(op)])
        x = np.array([[np.nan, 1, -0.0, 0.0, 3e38, -3e38, 1e-40, -2]], "float32")
        s = np.array([1, np.nan, 1, -1, 1, 1, 1, np.inf], "float32")
        with np.errstate(all="ignore"):
            checks.check(f"{op} of special values", alone(x, s), meaning(x.astype("float64"), s.astype("float64")).astype("float32"),
                         atol=1e-38)
        big = normal(40, 60)
        for name, view in (("turned", big.T), ("every second", big[::2, ::2]), ("off by one", big[1:, 1:])):
            s = normal(2 * view.shape[1])[::2]
            checks.check(f"{op} of a view: {name}", alone(view, s), meaning(view.astype("float64"), s.astype("float64")))
        # Two sizes of one op in one graph, one of them an expression, and results that are read twice.
        both = checks.load(f"""graph @both(%x: tensor<AxBxf32>, %s: tensor<Bxf32>, %t: tensor<(2*B)xf32>) -> (y: tensor<AxBxf32>, z: tensor<Ax(2*B)xf32>) {{
  %y = custom @{op}(%x, %s) : tensor<AxBxf32>
  %c = concat %y, %x, axis = 1 : tensor<Ax(2*B)xf32>
  %d = custom @{op}(%c, %t) : tensor<Ax(2*B)xf32>
  %z = neg %d : tensor<Ax(2*B)xf32>
  return %y, %z
}}""", customs=[declarations(op)])
        x, s, t = normal(6, 33), normal(33), normal(66)
        y, z = both(x, s, t)
        expected = meaning(x.astype("float64"), s)
        checks.check(f"{op} twice, y", y, expected)
        checks.check(f"{op} twice, z", z, -meaning(np.concatenate([expected, x], 1), t), rtol=1e-4, atol=1e-5)
        # Operands that cost nothing in a region have to be in memory here: turned, repeated, constant, a table, a view.
        for mode in ("fused", "eager"):
            free = checks.load(f"""graph @free(%x: tensor<AxBxf32>, %v: tensor<f32>) -> (y: tensor<BxAxf32>, z: tensor<1x3xf32>, w: tensor<1x(A*B)xf32>) {{
  %t = transpose %x, perm = [1, 0] : tensor<BxAxf32>
  %s = broadcast %v, dims = [] : tensor<Axf32>
  %y = custom @{op}(%t, %s) : tensor<BxAxf32>
  %c = constant 2.0 : tensor<1x3xf32>
  %d = constant [1.0, -2.0, 3.0] : tensor<3xf32>
  %z = custom @{op}(%c, %d) : tensor<1x3xf32>
  %r = reshape %x : tensor<1x(A*B)xf32>
  %o = constant 1.0 : tensor<(A*B)xf32>
  %w = custom @{op}(%r, %o) : tensor<1x(A*B)xf32>
  return %y, %z, %w
}}""", customs=[declarations(op)], mode=mode)
            x, v = normal(5, 7), np.array(-1.5, "float32")
            y, z, w = free(x, v)
            wide = x.astype("float64")
            checks.check(f"{op} of free operands {mode}, y", y, meaning(wide.T, v))
            checks.check(f"{op} of free operands {mode}, z", z, meaning(np.full((1, 3), 2.0), np.array([1.0, -2.0, 3.0])))
            checks.check(f"{op} of free operands {mode}, w", w, meaning(wide.reshape(1, -1), 1))
        # Names of the graph are not those of the declaration, also where they are bound.
        crossed = checks.load(f"""graph @crossed(%x: tensor<NxMxf32>, %s: tensor<Mxf32>) -> (y: tensor<NxMxf32>) {{
  %y = custom @{op}(%x, %s) : tensor<NxMxf32>
  return %y
}}""", customs=[declarations(op)], dims={"N": 4, "M": 6})
        x, s = normal(4, 6), normal(6)
        checks.check(f"{op} with crossed names", crossed(x, s), meaning(x.astype("float64"), s))
        # Sizes that are numbers, and eager runs.
        for mode in ("fused", "eager"):
            fixed = checks.load(OPS[op], dims={"M": 9, "K": 16, "N": 300}, mode=mode)
            x, w, s = normal(9, 16), normal(16, 300), normal(300)
            checks.check(f"{op} {mode}", fixed(x, w, s), softmax(meaning(x.astype("float64") @ w, s)), rtol=1e-3, atol=1e-5)

    center = checks.load("""graph @g(%x: tensor<MxNxf32>) -> (y: tensor<Mxf32>, z: tensor<MxNxf32>, t: tensor<NxMxf32>) {
  %n = neg %x : tensor<MxNxf32>
  %y, %z = custom @center(%n) : tensor<Mxf32>, tensor<MxNxf32>
  %t = transpose %z, perm = [1, 0] : tensor<NxMxf32>
  return %y, %z, %t
}""", customs=[CENTER])
    for m, n in ((1, 1), (4, 127), (33, 128), (2, 1000), (0, 3)):
        x = normal(m, n)
        y, z, t = center(x)
        total = -x.astype("float64").sum(1)
        checks.check(f"center {m}x{n}, y", y, total, rtol=1e-4, atol=1e-4)
        checks.check(f"center {m}x{n}, z", z, -x - total[:, None], rtol=1e-4, atol=1e-4)
        checks.check(f"center {m}x{n}, t", t, (-x - total[:, None]).T, rtol=1e-4, atol=1e-4)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda:0")
    checks = Checks(parser.parse_args().device)
    run(checks)
    print(f"{checks.count - checks.failures} of {checks.count} agree with NumPy on {checks.device}")
    return 1 if checks.failures else 0


if __name__ == "__main__":
    sys.exit(main())
