"""The works through JAX, in a process of its own that answers requests line by line (jax_peers.py has the other end)."""

import dataclasses
import json
import os
import statistics
import sys
import time

import cases

# JAX would take most of the memory at once, and torch is on the same GPU.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

# References are in f64; everything else states its type.
jax.config.update("jax_enable_x64", True)

DTYPES = {"f32": jnp.float32, "tf32": jnp.float32, "f16": jnp.float16, "bf16": jnp.bfloat16}
PRECISION = {"f32": "highest", "tf32": "tensorfloat32"}
EPS = 1e-5


def layernorm(x, gamma, beta):
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    centered = wide - wide.mean(-1, keepdims=True)
    scale = jax.lax.rsqrt((centered * centered).mean(-1, keepdims=True) + EPS)
    return (centered * scale * gamma + beta).astype(x.dtype)


def residual_layernorm(x, r, gamma, beta):
    total = x + r
    return layernorm(total, gamma, beta), total


def rmsnorm(x, gamma):
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    return (wide * jax.lax.rsqrt((wide * wide).mean(-1, keepdims=True) + EPS) * gamma).astype(x.dtype)


def attention(q, k, v, mask=None):
    scores = (q @ jnp.swapaxes(k, -2, -1)) * k.shape[-1] ** -0.5
    return jax.nn.softmax(scores if mask is None else scores + mask, axis=-1) @ v


def cudnn_attention(q, k, v, mask=None):
    return jax.nn.dot_product_attention(q, k, v, is_causal=mask is not None, implementation="cudnn")


def function_of(case, provider):
    if provider == "JAX cuDNN":
        return cudnn_attention
    precision = PRECISION.get(case.dtype)
    return {
        "softmax": lambda x: jax.nn.softmax(x, axis=-1),
        "softmax0": lambda x: jax.nn.softmax(x, axis=0),
        "linear": lambda x, w, b: jax.nn.relu(jnp.matmul(x, w, precision=precision) + b),
        "linear_residual": lambda x, w, b, r: jax.nn.relu(jnp.matmul(x, w, precision=precision) + b + r),
        "linear_softmax": lambda x, w, b: jax.nn.softmax(jnp.matmul(x, w, precision=precision) + b, axis=-1),
        "swiglu": lambda x, w, v: jax.nn.silu(jnp.matmul(x, w, precision=precision)) * jnp.matmul(x, v, precision=precision),
        "layernorm": layernorm,
        "residual_layernorm": residual_layernorm,
        "rmsnorm": rmsnorm,
        "bias_gelu": lambda x, b: jax.nn.gelu(x + b, approximate=False),
        "bias_relu": lambda x, b: jax.nn.relu(x + b),
        "transpose": jnp.transpose,
        "sum0": lambda x: x.sum(0),
        "sum_all": jnp.sum,
        "attention": attention,
        "copy": jnp.copy,
    }[case.work]


def make_inputs(case):
    """As torch_peers.make_inputs."""
    tensors = []
    for number, (name, sizes) in enumerate(case.inputs.items()):
        if name == "mask":
            value = jnp.triu(jnp.full(sizes, -jnp.inf, jnp.float32), 1)
        else:
            value = jax.random.normal(jax.random.key(number), sizes, jnp.float32)
        if name in ("w", "v") and case.work in cases.PRODUCTS:
            value = value / jnp.float32(sizes[0] ** 0.5)
        if case.work in cases.SUMS:
            value = jnp.round(value)
        tensors.append(value.astype(DTYPES[case.dtype]))
    return tensors


def reference(case, inputs):
    """The work in f64; attention head by head, since its scores are many."""
    if case.work != "attention":
        exact = dataclasses.replace(case, dtype="f32")
        return jax.jit(function_of(exact, "JAX"))(*(value.astype(jnp.float64) for value in inputs))
    q, k, v = (value.reshape(-1, *value.shape[2:]) for value in inputs[:3])
    mask = [value.astype(jnp.float64) for value in inputs[3:]]

    def head(tensors):
        return attention(*(value.astype(jnp.float64) for value in tensors), *mask)

    return jax.jit(lambda *heads: jax.lax.map(head, heads))(q, k, v).reshape(case.sizes)


def error_of(output, wanted):
    """As measure.error_of, of one result."""
    difference = jnp.abs(output.astype(jnp.float64) - wanted).max()
    error = float(difference / jnp.abs(wanted.astype(jnp.float64)).max())
    return error if error == error else float("inf")


class Candidate:
    def __init__(self, case, provider):
        inputs = make_inputs(case)
        wanted = jax.block_until_ready(reference(case, inputs))
        heads_inside = provider == "JAX cuDNN"  # It takes batch, positions, heads, depth.
        if heads_inside:
            inputs = [*(jnp.swapaxes(value, 1, 2) for value in inputs[:3]), *inputs[3:]]
        self.inputs = jax.block_until_ready(inputs)
        self.function = jax.jit(function_of(case, provider))
        begin = time.perf_counter()
        outputs = jax.block_until_ready(self.function(*self.inputs))
        self.first_call_s = time.perf_counter() - begin
        outputs = jnp.swapaxes(outputs, 1, 2) if heads_inside else outputs
        self.err = max(map(error_of, jax.tree.leaves(outputs), jax.tree.leaves(wanted)))
        del outputs, wanted
        self.estimate_s = min(self.pipelined(1) for _ in range(3))

    def pipelined(self, calls, before=None):
        """Seconds of one of `calls` calls that follow each other without waiting."""
        begin = time.perf_counter()
        for _ in range(calls):
            if before:
                before()
            output = self.function(*self.inputs)
        jax.block_until_ready(output)
        return (time.perf_counter() - begin) / calls

    def host_s(self, calls):
        begin = time.perf_counter()
        for _ in range(calls):
            output = self.function(*self.inputs)
        spent = time.perf_counter() - begin
        jax.block_until_ready(output)
        return spent / calls


class Worker:
    def __init__(self, use_cupti):
        self.candidates = {}
        self.use_cupti = use_cupti
        self.memory = jnp.zeros(64 << 20, jnp.int32)
        self.overwrite = jax.jit(lambda memory: memory + jnp.int32(1), donate_argnums=0)
        self.flush()
        jax.block_until_ready(self.memory)

    def flush(self):
        self.memory = self.overwrite(self.memory)

    def flush_s(self, calls):
        jax.block_until_ready(self.memory)
        begin = time.perf_counter()
        for _ in range(calls):
            self.flush()
        jax.block_until_ready(self.memory)
        return (time.perf_counter() - begin) / calls

    def hello(self):
        about = {"jax": jax.__version__, "device": str(jax.devices()[0]), "platform": jax.default_backend()}
        if self.use_cupti:  # Where CUPTI hangs, it does so here, and the other end starts a worker without it.
            try:
                self.kernel_times(jax.jit(lambda x: x + 1), [jnp.ones(8, jnp.float32)], 2)
            except Exception as error:
                self.use_cupti, about["no kernel times"] = False, f"{type(error).__name__}: {error}"
        return about

    def build(self, provider, case):
        case = cases.Case(**{**case, "sizes": tuple(case["sizes"])})
        self.candidates[provider] = candidate = Candidate(case, provider)
        return {"err": candidate.err, "first_call_s": candidate.first_call_s, "estimate_ms": candidate.estimate_s * 1e3}

    def measure(self, provider, seconds):
        candidate = self.candidates[provider]

        def calls(share, extra=0.0):
            return max(1, min(50, int(seconds * share / (candidate.estimate_s + extra))))

        count = calls(0.5, 1e-4)
        cold = candidate.pipelined(count, self.flush) - self.flush_s(count)
        warm, host = candidate.pipelined(calls(0.3)), candidate.host_s(min(30, calls(0.2)))
        return {"ms": cold * 1e3 if cold > 0 else None, "ms_warm": warm * 1e3, "call_ms": host * 1e3}

    def kernel_times(self, function, inputs, iterations):
        from jax.experimental.mosaic.gpu import profiler

        return profiler.measure(function, iterations=iterations)(*inputs)[1]

    def kernels(self, provider):
        """The sum of a call's kernel times: no launches, and no gaps between kernels."""
        candidate = self.candidates[provider]
        if not self.use_cupti:
            return {}
        times = self.kernel_times(candidate.function, candidate.inputs, max(2, min(20, int(0.1 / candidate.estimate_s))))
        return {"kernels_ms": statistics.median(times)} if times else {}

    def drop(self):
        self.candidates.clear()
        return {}


def serve(use_cupti):
    """Answers {"ask": method, ...} from standard input with one line of JSON each; what libraries print goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    worker = Worker(use_cupti)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = getattr(worker, request.pop("ask"))(**request)
        except Exception as error:  # Whatever JAX says belongs into the row.
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)
