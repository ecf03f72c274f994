#!/usr/bin/env python3
"""Random matmuls with what is fused behind them, against f64.

    PYTHONPATH=tools/python test/gpu/check_matmul.py [--device auto|cpu|cuda:0] [--count N] [--seed N] [--large] [--only TYPE]
        [--target sm_80] [--mma]

Draws batches, sizes (odd ones, whole blocks, one row; --large: up to 2000), the element type (of f32 how it may be rounded or split), whether
x and w are transposed, pieces that k is cut into, and a chain behind the product: biases along rows and columns, a residual, functions, reductions
of rows, a result of another type, a second result. In some, others of x and another w, with chains of their own, are multiplied by it or added. Rows
of NaN and inf in x and columns of them in w must stay in theirs. --target compiles for another one than the device's; --mma draws a
schedule for the tensor cores of a warp where one for tensor cores was chosen. On the GPU a second run has to give the same bits. Each result must
be within the bound for its sums (any order; integers: the same) and one rounding; prints what is not, and how the sums were far from f64.
"""
import re
import sys

import numpy as np

import minic
import products
from products import ELEMENTS, EPSILON, from_bits

# Element type, `precision`, and the element type of what is behind the product.
FORMS = {
    "bf16": ("bf16", "", "bf16"),
    "f16": ("f16", "", "f16"),
    "tf32": ("f32", "tf32", "f32"),
    "bf16x6": ("f32", "bf16x6", "f32"),
    "f8e4m3": ("f8e4m3", "", "f32"),
    "f8e5m2": ("f8e5m2", "", "f32"),
    "i8": ("i8", "", "i32"),
    "f64": ("f64", "", "f64"),
}
BYTES = {"bf16": 2, "f16": 2, "tf32": 4, "i8": 1, "f64": 8}  # Of what mma multiplies.
FUNCTIONS = {
    "relu": lambda v: np.maximum(v, 0),
    "tanh": np.tanh,
    "neg": np.negative,
    "sigmoid": lambda v: 1 / (1 + np.exp(-v)),
}
SLOPE = {"relu": 1, "tanh": 1, "neg": 1, "sigmoid": 0.25}


class Combination(products.Product):
    """One graph, its inputs, and what it gives in f64."""

    def __init__(self, rng, large, only=None, on_gpu=False, has_wgmma=True, alone=False):
        super().__init__(rng)
        pick, most = self.pick, 2000 if large else 260
        size = lambda *usual: pick(*usual, int(rng.integers(1, most)))
        self.m, self.k, self.n = size(1, 7, 64, 65, 128, 200), size(64, 72, 128, 77, 192), size(64, 72, 128, 111, 192, 256)
        self.batch = pick((), (), (3,), (2, 2))
        self.w_batch = self.batch if rng.random() < 0.6 else ()
        self.alone = alone
        self.form, self.on_gpu, self.has_wgmma = only or pick(*FORMS), on_gpu, has_wgmma
        self.operands, self.precision, self.dtype = FORMS[self.form]
        self.x_across, self.w_across = bool(rng.random() < 0.3), bool(rng.random() < 0.4)
        self.poisoned = bool(rng.random() < 0.3)
        self.count, self.results = 0, []
        self.chunk = pick(0, 0, 0, 16, 64, 128, 128, 256)
        self.product()
        self.chain()
        for _ in range(0 if alone else pick(0, 0, 0, 1, 1, 2)):
            self.join()
        self.finish()

    def values(self, name, sizes, dtype, scale):
        if ELEMENTS[dtype].is_int:
            return self.rng.integers(-128, 128, sizes)
        values = super().values(name, sizes, dtype, scale)
        if self.poisoned and name[0] in "xw":
            values[tuple(int(self.rng.integers(size)) for size in sizes)] = [np.nan, np.inf, -np.inf][self.rng.integers(3)]
        return values

    def product(self):
        self.name, x, w = self.multiply(self.operands, self.dtype, self.precision)
        with np.errstate(invalid="ignore"):
            self.value = x @ w
            self.error = np.abs(x) @ np.abs(w) * self.bound()
        if self.form == "bf16x6" and self.on_tensor_cores:  # Of an infinity all parts but the first are NaN.
            self.value = np.where(np.isfinite(self.value), self.value, np.nan)

    @property
    def on_tensor_cores(self):
        """A w that repeats for batches is none that lies in memory; parts and 8-bit floats are of wgmma alone."""
        depth = 64 if self.form == "bf16x6" else 128 // ELEMENTS[self.operands].size  # Elements of a block of k.
        has_blocks = not self.chunk or self.chunk >= depth
        return self.k >= 64 and self.n >= 64 and has_blocks and self.w_batch == self.batch and (self.has_wgmma or self.form in BYTES)

    def bound(self):
        """Of the product, relative to the sum of magnitudes."""
        if self.form == "i8":
            return 0
        if self.form == "f64":  # What is compared with is summed in f64 too.
            return 2 * (self.k + 1) * products.EPSILON["f64"]
        chain = products.chain_bound(self.k)
        if self.form == "tf32":  # Each operand is rounded to 11 bits.
            return chain + 2.0**-10 + 2.0**-22
        if self.form == "bf16x6" and self.on_tensor_cores:  # A chain of a block, the blocks, and products that are left out.
            return products.chain_bound(64 + -(-self.k // 64) + self.pieces + 3)
        if self.operands.startswith("f8") and self.on_tensor_cores and self.on_gpu:
            # 33 terms are aligned to the largest and cut to 14 bits, four times in a block of 128.
            return chain + 4 * 33 * 2.0**-13
        return chain

    def step(self, text, value, error):
        self.count += 1
        self.emit(f"v{self.count}", text, self.shape, self.dtype)
        self.name, self.value, self.error = f"v{self.count}", value, error

    def chain(self):
        pick, shape = self.pick, self.shape
        for _ in range(int(self.rng.integers(4))):
            kind = pick("columns", "rows", "residual", "function", "function", "second", *([] if self.alone else ["reduced"]))
            with np.errstate(invalid="ignore", over="ignore"):
                if kind in ("columns", "rows"):
                    along = kind == "columns"
                    name = f"b{self.count}"
                    b = self.input(name, (self.n if along else self.m,), self.dtype)
                    self.emit(f"{name}b", f"broadcast %{name}, dims = [{len(self.batch) + int(along)}]", shape, self.dtype)
                    self.step(f"add %{self.name}, %{name}b", self.value + (b if along else b[:, None]), self.error)
                elif kind == "residual":
                    r = self.input(f"r{self.count}", shape, self.dtype)
                    self.step(f"add %{self.name}, %r{self.count}", self.value + r, self.error)
                elif kind == "function":
                    function = pick(*FUNCTIONS) if self.dtype != "i32" else "neg"
                    self.step(f"{function} %{self.name}", FUNCTIONS[function](self.value), self.error * SLOPE[function] + 2.0**-13)
                elif kind == "reduced":
                    self.reduced()
                elif not self.results:
                    self.results.append((self.name, self.dtype, self.value, self.error))

    def rounded(self):
        """The error, with what is lost where each value so far was rounded."""
        return self.error + (np.abs(self.value) + 4) * EPSILON[self.dtype] * (self.count + 2)

    def join(self):
        """With a product of x and another w, and a chain of its own."""
        name, value, error = self.name, self.value, self.rounded()
        if self.rng.random() < 0.2:
            self.w_across = not self.w_across
        self.product()
        self.chain()
        with np.errstate(invalid="ignore", over="ignore"):
            # An infinity times what is about 0 may have either sign.
            if self.dtype == "i32" or self.poisoned or self.rng.random() < 0.3:
                self.step(f"sub %{name}, %{self.name}", value - self.value, error + self.rounded())
            else:
                other = self.rounded()
                error = np.abs(value) * other + np.abs(self.value) * error + error * other
                self.step(f"mul %{name}, %{self.name}", value * self.value, error)

    def finish(self):
        """Adds the last value to the results."""
        shape, results = self.shape, self.results
        if self.rng.random() < 0.3 and EPSILON[self.dtype] > EPSILON["f32"]:
            self.emit("wide", f"convert %{self.name}", shape, "f32")
            results.append(("wide", "f32", self.value, self.error))
        elif not any(name == self.name for name, *_ in results):
            results.append((self.name, self.dtype, self.value, self.error))

    def reduced(self):
        """Goes on with the differences to what each row is reduced to, which may be a result too."""
        combiner = self.pick("max", "min", *(["sum"] if self.dtype != "i32" else []))
        finite = np.isfinite(self.value)
        errors, axis, dtype = np.where(finite, self.error, 0), len(self.shape) - 1, self.dtype
        if combiner == "sum":
            total = self.value.sum(-1)
            error = errors.sum(-1) + np.abs(np.where(finite, self.value, 0)).sum(-1) * (self.n + 1) * EPSILON["f32"]
        else:
            total, error = getattr(self.value, combiner)(-1), errors.max(-1)
        name = f"t{self.count}"
        self.emit(name, f"reduce {combiner} %{self.name}, axes = [{axis}]", self.shape[:-1], dtype)
        self.emit(f"{name}b", f"broadcast %{name}, dims = {list(range(axis))}", self.shape, dtype)
        rounding = EPSILON[dtype] * np.abs(total) if dtype != "i32" else 0 * total
        self.step(f"sub %{self.name}, %{name}b", self.value - total[..., None], self.error + (error + rounding)[..., None])
        if self.rng.random() < 0.5:
            self.results.append((name, dtype, total, error))

    @property
    def text(self):
        return self.text_of([(name, dtype) for name, dtype, *_ in self.results])

    def wrong(self, outputs):
        """What is wrong with the results; empty if all is well."""
        for i, (_, dtype, value, error) in enumerate(self.results):
            got = from_bits(outputs[i], dtype).reshape(value.shape)
            known = np.isfinite(value)
            if self.dtype == "i32":
                if not np.array_equal(got, value):
                    return f"result {i}: {int((got != value).sum())} of {got.size} integers are others"
                continue
            if not np.array_equal(np.isnan(got), np.isnan(value)) or not np.array_equal(got[np.isinf(value)], value[np.isinf(value)]):
                return f"result {i}: NaN and inf are not where they belong"
            # A value in 16 bits may be rounded after each op.
            allowed = error[known] + (np.abs(value[known]) + 4) * EPSILON[self.dtype] * (self.count + 2)
            why, _ = products.beyond(got[known], value[known], allowed)
            if why:
                return f"result {i}: {why}"
        return ""


def mma_schedule(rng, form, chunk):
    element, accumulators = BYTES[form], 64 if form == "f64" else 128
    pick = lambda *choices: int(choices[rng.integers(len(choices))])
    while True:
        warps_m, warps_n = pick(1, 2, 4), pick(1, 2, 4)
        bm, bn, bk, stages = pick(16, 32, 64, 128), pick(16, 32, 64, 128, 256), pick(16, 32, 64, 128), pick(1, 2, 3, 4, 5)
        fits = bm >= 16 * warps_m and bn >= 8 * warps_n and bm * bn <= accumulators * 32 * warps_m * warps_n and bk * element >= 32 and bk <= (chunk or bk)
        if fits and stages * (bm + bn) * bk * element <= 64 << 10:
            return f"#matmul<bm = {bm}, bn = {bn}, bk = {bk}, unit = mma, warps = [{warps_m}, {warps_n}], stages = {stages}, raster = {pick(1, 2, 8)}>"


def compiled(combination, options, index):
    if not options.mma or combination.form not in BYTES:
        return minic.compile(combination.text, target=options.target)
    rng = np.random.default_rng([options.seed, index, 1])
    fused = minic.emit(combination.text, "fused", target=options.target)
    return minic.compile(re.sub("#matmul<[^>]*unit[^>]*>", lambda _: mma_schedule(rng, combination.form, combination.chunk), fused))


def outputs_of(combination, options, index):
    artifact = compiled(combination, options, index)
    executable = artifact.load(options.device)
    inputs = list(combination.inputs.values())
    results = executable(*inputs)
    return [np.asarray(result) for result in (results if isinstance(results, (tuple, list)) else [results])]


def main():
    parser = products.arguments(__doc__, 200)
    parser.add_argument("--only", choices=FORMS)
    parser.add_argument("--target")
    parser.add_argument("--mma", action="store_true")
    options = parser.parse_args()
    on_gpu, has_wgmma = options.device != "cpu", options.target in (None, "sm_90a")

    def check(combination, index):
        outputs = outputs_of(combination, options, index)
        why = combination.wrong(outputs)
        if not why and on_gpu and index % 4 == 0:
            again = outputs_of(combination, options, index)
            why = "" if all(a.tobytes() == b.tobytes() for a, b in zip(outputs, again)) else "another run gives other bits"
        return [why] if why else []

    # A kernel of the tensor cores of a warp has one product, and reduces no rows; what is fused where they are not chosen may have more.
    draw = lambda rng: Combination(rng, options.large, options.only, on_gpu, has_wgmma, alone=options.mma)
    failed = products.check_all(options, draw, check)
    print(f"{options.count - failed} of {options.count} combinations right")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
