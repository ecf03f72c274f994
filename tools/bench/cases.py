"""What is compared: works, shapes, element types, and who takes part. Needs nothing but Python."""

import dataclasses
import itertools
import math

# tf32 is f32 in memory, with the tensor cores' 10-bit mantissas in products.
BYTES = {"f32": 4, "tf32": 4, "f16": 2, "bf16": 2}

# The largest error allowed, over the largest magnitude of the reference. 16-bit results may be rounded after each of several ops.
BOUNDS = {"f32": 1e-5, "tf32": 2e-3, "f16": 4e-3, "bf16": 3e-2}

# Rows that are limits, not peers: they do less than the work. Ratios leave them out. The copy moves as many bytes as the work does.
COPY = "copy (torch copy_)"
MATMUL_ALONE = "cuBLAS matmul alone"
REFERENCES = (COPY, MATMUL_ALONE)

FUSED, EXACT, FAST, EAGER = "minic fused", "minic exact", "minic fast", "minic eager"
# With the options that each is compiled with. What is judged is FUSED; the others are seen beside it.
MINIC = {FUSED: {}, EXACT: {"numerics": "exact"}, FAST: {"numerics": "fast"}, EAGER: {"mode": "eager"}}
TORCH_EAGER = "torch eager"
COMPILED = ("torch.compile", "torch.compile max-autotune")


# They write next to nothing, so that a copy is no limit of theirs.
SUMS = ("sum0", "sum_all")

# Of sizes N, K, M: [N,K] x [K,M].
PRODUCTS = ("linear", "linear_residual", "linear_softmax", "swiglu")

# Inputs beside x of the size of its last axis.
VECTORS = {
    "layernorm": ("gamma", "beta"),
    "residual_layernorm": ("gamma", "beta"),
    "rmsnorm": ("gamma",),
    "bias_gelu": ("b",),
    "bias_relu": ("b",),
}


@dataclasses.dataclass(frozen=True)
class Case:
    """Sizes: of the tensor x; products: N, K, M of [N,K] x [K,M]; attention: batch, heads, positions, depth."""

    work: str
    sizes: tuple
    dtype: str
    small: bool = False  # judged inside a replayed graph, since launching takes as long as the work
    causal: bool = False

    @property
    def shape(self):
        if self.work == "attention":
            text = " ".join(letter + str(size) for letter, size in zip("bhsd", self.sizes))
            return text + (" causal" if self.causal else "")
        return "x".join(map(str, self.sizes))

    @property
    def inputs(self):
        """Names and sizes, in the order in which every provider takes them."""
        if self.work in PRODUCTS:
            n, k, m = self.sizes
            if self.work == "swiglu":
                return {"x": (n, k), "w": (k, m), "v": (k, m)}
            return {"x": (n, k), "w": (k, m), "b": (m,), **({"r": (n, m)} if self.work == "linear_residual" else {})}
        if self.work == "attention":
            mask = {"mask": self.sizes[2:3] * 2} if self.causal else {}
            return {"q": self.sizes, "k": self.sizes, "v": self.sizes, **mask}
        residual = {"r": self.sizes} if self.work == "residual_layernorm" else {}
        return {"x": self.sizes, **residual, **{name: self.sizes[-1:] for name in VECTORS.get(self.work, ())}}

    @property
    def results(self):
        """Names and sizes, in the order in which every provider gives them."""
        if self.work in PRODUCTS:
            return {"y": (self.sizes[0], self.sizes[2])}
        if self.work == "residual_layernorm":
            return {"y": self.sizes, "total": self.sizes}
        return {"y": {"sum0": self.sizes[1:], "sum_all": (), "transpose": self.sizes[::-1]}.get(self.work, self.sizes)}

    @property
    def required_bytes(self):
        """Every input read once, every result written once; a causal mask needs no memory."""
        read = [sizes for name, sizes in self.inputs.items() if name != "mask"]
        return BYTES[self.dtype] * sum(map(math.prod, (*read, *self.results.values())))

    @property
    def flops(self):
        """Of the matrix products; None where the work is bound by memory."""
        if self.work in PRODUCTS:
            return (4 if self.work == "swiglu" else 2) * math.prod(self.sizes)
        if self.work == "attention":
            b, h, s, d = self.sizes
            return 4 * b * h * s * s * d // (2 if self.causal else 1)
        return None


def _each(work, shapes, dtypes):
    return [Case(work, sizes, dtype) for sizes in shapes for dtype in dtypes]


BOTH = ("f32", "bf16")


def _softmax():
    for sizes in ((4096, 1024), (1823, 781), (128, 1024), (4096, 256), (4096, 781)):
        yield Case("softmax", sizes, "f32", small=True)
    yield from _each("softmax", ((65536, 1024), (32768, 4096), (8192, 32768)), BOTH)
    yield from _each("softmax", ((1024, 262144), (1048576, 64)), ("f32",))
    yield from _each("softmax", ((16384, 8192),), ("bf16",))
    yield from _each("softmax", ((65536, 781), (65536, 1023), (16384, 4095)), BOTH)


def _softmax0():
    yield from _each("softmax0", ((1024, 65536),), BOTH)
    yield from _each("softmax0", ((4096, 16384),), ("f32",))


def _linear():
    for sizes in ((8192, 8192, 8192), (4096, 4096, 4096), (2048, 2048, 2048), (8192, 4096, 16384)):
        yield Case("linear", sizes, "bf16")
    for sizes in ((16, 8192, 8192), (1000, 777, 1111)):
        yield Case("linear", sizes, "bf16", small=True)
    for sizes in ((512, 16384, 512), (128, 16384, 1024)):
        yield Case("linear", sizes, "bf16", small=True)
    yield Case("linear", (8192, 8192, 8192), "f16")
    yield Case("linear", (8192, 8192, 8192), "tf32")
    yield Case("linear", (4096, 4096, 4096), "f32")
    for sizes in ((16, 8192, 8192), (1000, 777, 1111), (130, 4100, 72), (512, 512, 512), (100, 10, 100), (33, 16, 65)):
        yield Case("linear", sizes, "f32", small=True)


def _products(work, large, small):
    for sizes in large:
        yield Case(work, sizes, "bf16")
    for sizes in small:
        yield Case(work, sizes, "bf16", small=True)


def _rows(work):
    yield from _each(work, ((65536, 1024), (32768, 4096), (16384, 8192)), BOTH)


def _attention():
    yield Case("attention", (4, 16, 4096, 128), "bf16")
    yield Case("attention", (4, 16, 4096, 128), "bf16", causal=True)
    for sizes in ((1, 16, 16384, 128), (4, 32, 4096, 64), (16, 16, 1024, 64)):
        yield Case("attention", sizes, "bf16")


def _copy():
    for elements in (1 << 22, 1 << 26, 1 << 30):
        yield Case("copy", (elements,), "f32", small=elements < 1 << 25)


CASES = {
    "softmax": tuple(_softmax()),
    "softmax0": tuple(_softmax0()),
    "linear": tuple(_linear()),
    "linear_residual": tuple(_products("linear_residual", ((4096, 4096, 4096), (8192, 4096, 16384)), ((2048, 2048, 2048),))),
    "linear_softmax": tuple(_products("linear_softmax", (), ((8192, 4096, 128), (8192, 4096, 256), (16384, 1024, 64)))),
    "swiglu": tuple(_products("swiglu", ((8192, 4096, 11008), (4096, 4096, 4096)), ((16, 4096, 11008), (512, 4096, 1024)))),
    "layernorm": (*_rows("layernorm"), *_each("layernorm", ((65536, 781), (65536, 1023), (16384, 4095)), BOTH)),
    "residual_layernorm": tuple(_rows("residual_layernorm")),
    "rmsnorm": tuple(_rows("rmsnorm")),
    "bias_gelu": tuple(_rows("bias_gelu")),
    "bias_relu": tuple(_each("bias_relu", ((65536, 1024),), ("f32",))),
    "transpose": tuple(_each("transpose", ((16384, 16384),), BOTH)),
    "sum0": tuple(_each("sum0", ((65536, 4096),), BOTH)),
    "sum_all": tuple(_each("sum_all", ((1 << 28,),), ("f32",))),
    "attention": tuple(_attention()),
    "copy": tuple(_copy()),
}

# In the order of the tables.
PROVIDERS = {
    "softmax": (*MINIC, TORCH_EAGER, "torch.softmax", *COMPILED, "Triton row/program", "Triton persistent", "JAX", COPY),
    "softmax0": (*MINIC, TORCH_EAGER, "torch.softmax", *COMPILED, "JAX", COPY),
    "linear": (*MINIC, TORCH_EAGER, "addmm + relu_", "cuBLASLt relu epilogue", MATMUL_ALONE, *COMPILED, "Triton", "JAX"),
    "linear_residual": (*MINIC, TORCH_EAGER, *COMPILED, "JAX"),
    "linear_softmax": (*MINIC, TORCH_EAGER, *COMPILED, "JAX"),
    "swiglu": (*MINIC, TORCH_EAGER, *COMPILED, "JAX"),
    "layernorm": (*MINIC, TORCH_EAGER, "F.layer_norm", *COMPILED, "Triton", "JAX", COPY),
    "residual_layernorm": (*MINIC, TORCH_EAGER, "F.layer_norm", *COMPILED, "JAX", COPY),
    "rmsnorm": (*MINIC, TORCH_EAGER, "F.rms_norm", *COMPILED, "Triton", "JAX", COPY),
    "bias_gelu": (*MINIC, TORCH_EAGER, *COMPILED, "Triton", "JAX", COPY),
    "bias_relu": (*MINIC, TORCH_EAGER, *COMPILED, "JAX", COPY),
    "transpose": (*MINIC, TORCH_EAGER, *COMPILED, "JAX", COPY),
    "sum0": (*MINIC, TORCH_EAGER, *COMPILED, "JAX"),
    "sum_all": (*MINIC, TORCH_EAGER, *COMPILED, "JAX"),
    "attention": (*MINIC, TORCH_EAGER, "FlashAttention 2", "cuDNN", *COMPILED, "JAX", "JAX cuDNN"),
    "copy": (FUSED, "Triton", "JAX", COPY),
}

_SUM = "torch.sum; next to nothing is written, so that no copy stands beside it: the limit is the rate of reading"

# What a table's reader should know of a provider, by (work, provider).
NOTES = {
    ("softmax", TORCH_EAGER): "written out: amax, sub, exp, sum, div",
    ("softmax0", TORCH_EAGER): "written out: amax, sub, exp, sum, div",
    ("linear", TORCH_EAGER): "relu(x @ w + b), three kernels",
    ("linear", "cuBLASLt relu epilogue"): "torch._addmm_activation",
    ("linear_residual", TORCH_EAGER): "relu(addmm(b, x, w) + r)",
    ("linear_softmax", TORCH_EAGER): "softmax(addmm(b, x, w))",
    ("swiglu", TORCH_EAGER): "silu(x @ w) * (x @ v)",
    ("layernorm", TORCH_EAGER): "written out in f32",
    ("residual_layernorm", TORCH_EAGER): "x + r, then written out in f32",
    ("residual_layernorm", "F.layer_norm"): "x + r, then F.layer_norm",
    ("rmsnorm", TORCH_EAGER): "written out in f32",
    ("bias_gelu", TORCH_EAGER): "F.gelu(x + b)",
    ("bias_relu", TORCH_EAGER): "relu(x + b)",
    ("transpose", TORCH_EAGER): "x.t().contiguous()",
    ("sum0", TORCH_EAGER): _SUM,
    ("sum_all", TORCH_EAGER): _SUM,
    ("attention", TORCH_EAGER): "written out: matmul, softmax, matmul",
    ("attention", "JAX"): "jit of the written-out form",
    ("attention", "JAX cuDNN"): "jax.nn.dot_product_attention",
}


def providers_of(work, chosen=None, numerics=()):
    """The chosen ones (None: all) in the order of the tables, and minic in the `numerics` that are named."""

    def takes_part(name):
        named = MINIC.get(name, {}).get("numerics")
        return named in numerics or (name in chosen if chosen else named is None)

    return [name for name in PROVIDERS[work] if takes_part(name)]


def note_of(work, provider):
    return NOTES.get((work, provider), "")


def _must_know(what, chosen, known):
    unknown = sorted(set(chosen or ()) - set(known))
    if unknown:
        raise ValueError(f"unknown {what} {', '.join(unknown)}; there are {', '.join(dict.fromkeys(known))}")


def check_numerics(names):
    _must_know("numerics", names, [options["numerics"] for options in MINIC.values() if "numerics" in options])


def selected(works=None, quick=False, shapes=None, dtypes=None):
    """Cases of the named works, shapes and types (None: all); `quick` keeps the first and the last of each work."""
    _must_know("work", works, CASES)
    pool = [case for work in works or CASES for case in CASES[work]]
    _must_know("shape", shapes, [case.shape for case in pool])
    _must_know("type", dtypes, [case.dtype for case in pool])
    pool = [case for case in pool if (not shapes or case.shape in shapes) and (not dtypes or case.dtype in dtypes)]
    if not pool:
        raise ValueError(f"no case has both a shape of {', '.join(shapes)} and a type of {', '.join(dtypes)}")
    if quick:
        groups = [list(group) for _, group in itertools.groupby(pool, key=lambda case: case.work)]
        pool = list(dict.fromkeys(case for group in groups for case in (group[0], group[-1])))
    return pool
