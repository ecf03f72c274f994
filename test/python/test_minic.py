"""The Python package on the interpreter: what comes out, what is refused, and what lives how long."""

import array
import gc
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings
import weakref

import numpy as np

import minic

try:
    import torch
except ImportError:
    torch = None
try:
    import jax
except ImportError:
    jax = None
try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCALE = """graph @scale(%x: tensor<MxNxf32>, %w: tensor<Nxf32>) -> (y: tensor<MxNxf32>) {
  %d = add %x, %x               : tensor<MxNxf32>
  %r = broadcast %w, dims = [1] : tensor<MxNxf32>
  %y = mul %d, %r               : tensor<MxNxf32>
  return %y
}"""


def doubling(dtype):
    """y = x + x; for booleans y = x & x."""
    op = "and" if dtype == "i1" else "add"
    return f"graph @g(%x: tensor<Nx{dtype}>) -> (y: tensor<Nx{dtype}>) {{\n %y = {op} %x, %x : tensor<Nx{dtype}>\n return %y\n}}"


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.artifact = minic.compile(SCALE)
        cls.scale = cls.artifact.load("cpu")
        cls.x = np.array([[1, 2, 3], [-4, 0.5, 8]], "float32")
        cls.w = np.array([10, 100, -1], "float32")
        cls.y = np.array([[20, 400, -6], [-80, 100, -16]], "float32")

    def refuses(self, code, says, call, *arguments, **more):
        with self.assertRaises(minic.MinicError) as caught:
            call(*arguments, **more)
        self.assertEqual(caught.exception.code, code, caught.exception)
        self.assertIn(says, str(caught.exception))
        return caught.exception


class Compiling(Case):
    def test_signature(self):
        a = self.artifact
        self.assertEqual([tuple(spec) for spec in a.inputs], [("x", "f32", ("M", "N")), ("w", "f32", ("N",))])
        self.assertEqual(str(a.results[0]), "y: tensor<MxNxf32>")
        self.assertEqual((a.graph, a.target, a.numerics, a.launches), ("scale", "sm_90a", "default", 1))
        self.assertEqual(minic.version(), minic.__version__)
        self.assertTrue(minic.llvm_version().startswith("22."))

    def test_options(self):
        a = minic.compile(SCALE, target="sm_80", numerics="exact", mode="eager", dims={"M": 4}, graph="scale", device="cpu")
        self.assertEqual((a.target, a.numerics, a.launches, a.inputs[0].shape), ("sm_80", "exact", 2, (4, "N")))

    def test_paths(self):
        path = ROOT / "examples/softmax.ir"
        for source in (path, str(path), path.read_text()):
            self.assertEqual(minic.compile(source).graph, "softmax")
        with self.assertRaises(FileNotFoundError):
            minic.compile("none.ir")

    def test_errors_show_the_text(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "bad.ir")
            path.write_text(SCALE.replace("mul %d", "mull %d"))
            error = self.refuses("E0201", "bad.ir:4:8: error: ", minic.compile, path)
        self.assertIn("%y = mull %d, %r", error.message)
        self.assertIn("mul", error.fix)
        self.assertEqual(error.kind, "data")
        self.refuses("E0801", "sm_1", minic.compile, SCALE, target="sm_1")
        error = self.refuses("E1102", "'options.mode' is 'lazy'", minic.compile, SCALE, mode="lazy")
        self.assertEqual(error.kind, "usage")

    def test_schedules(self):
        text = ("graph @g(%x: tensor<4096x960xf32>) -> (y: tensor<4096xf32>) {\n"
                "  %y = reduce sum %x, axes = [1] : tensor<4096xf32>\n  return %y\n}\n")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "found.txt")
            path.write_text("minic schedules 2\n"
                            "region {:tensor<AxBxf32>;reduce %0,combiner=sum,axes=[1]:tensor<Axf32>;yield %1}\n"
                            "sizes 4096, 1024\non sm_90a, default, GPU\n"
                            "default #rows<block = [1, 1024], warps = [1, 1], lanes = [1, 32], vec = 4>, 2 us\n"
                            "best #rows<block = [1, 512], warps = [1, 2], lanes = [1, 32], vec = 4>, 1 us\n")
            tuned = "block = [1, 512], warps = [1, 2]"
            self.assertIn(tuned, minic.emit(text, "fused", schedules=path))
            self.assertIn(tuned, minic.emit(text, "fused", schedules=str(path), tuned_for="GPU"))
            minic.compile(text, schedules=path, tuned_for="GPU")
            self.assertNotIn(tuned, minic.emit(text, "fused", schedules=path, tuned_for="another GPU"))
            self.assertNotIn(tuned, minic.emit(text, "fused", schedules="none"))

    def test_emit(self):
        self.assertIn(".target sm_80", minic.emit(SCALE, "ptx", target="sm_80"))
        self.assertIn("kernel @", minic.emit(SCALE, "tile"))
        self.refuses("E1102", "argument 'stage' is 'sass'", minic.emit, SCALE, "sass")

    def test_warnings_are_warnings(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            minic.compile(ROOT / "examples/wrong_padding.ir")
        self.assertEqual(len(caught), 1)
        self.assertIn("[E0407]", str(caught[0].message))
        self.assertEqual(caught[0].filename, __file__)

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "scale.mnc")
            self.artifact.save(path)
            again = minic.load(path)
            self.assertEqual(again.inputs, self.artifact.inputs)
            np.testing.assert_array_equal(again.load("cpu")(self.x, self.w), self.y)
            data = bytearray(path.read_bytes())
            data[len(data) // 2] ^= 1
            path.write_bytes(data)
            self.refuses("E0109", "scale.mnc", minic.load, path)

    def test_no_driver_is_opened(self):
        program = f"import minic; minic.compile({SCALE!r}); print('libcuda' in open('/proc/self/maps').read())"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        self.assertEqual(done.stdout.strip(), "False", done.stderr)


class NumPy(Case):
    def test_call(self):
        y = self.scale(self.x, self.w)
        self.assertIs(type(y), np.ndarray)
        np.testing.assert_array_equal(y, self.y)
        np.testing.assert_array_equal(self.scale(self.x[:1], self.w), self.y[:1])  # Another shape.
        np.testing.assert_array_equal(self.scale(np.asfortranarray(self.x), self.w), self.y)  # Copied anyway.
        self.assertEqual(self.scale(self.x[:0], self.w).shape, (0, 3))

    def test_run_into(self):
        y = np.empty((2, 3), "float32")
        self.scale.run([self.x, self.w], [y])
        np.testing.assert_array_equal(y, self.y)

    def test_cublaslt(self):
        text = (
            "graph @g(%x: tensor<MxKxf32>, %w: tensor<NxKxf32>, %b: tensor<Nxf32>) -> (y: tensor<MxNxf32>) where K >= 1 {\n"
            "  %t = transpose %w, perm = [1, 0] : tensor<KxNxf32>\n  %p = matmul %x, %t : tensor<MxNxf32>\n"
            "  %v = broadcast %b, dims = [1] : tensor<MxNxf32>\n  %y = add %p, %v : tensor<MxNxf32>\n  return %y\n}\n"
        )
        self.assertIn("library_call cublaslt %x, %w, %b, %y", minic.emit(text, "plan", matmul="cublaslt"))
        self.assertNotIn("library_call", minic.emit(text, "plan"))
        artifact = minic.compile(text, matmul="cublaslt")
        self.assertEqual(artifact.launches, 1)
        g = artifact.load("cpu")
        rng = np.random.default_rng(3)
        for m, k, n in ((5, 7, 3), (1, 1, 1), (0, 4, 2), (33, 65, 17)):
            x, w, b = (rng.standard_normal(shape).astype("float32") for shape in ((m, k), (n, k), (n,)))
            expected = x.astype("float64") @ w.T.astype("float64") + b
            np.testing.assert_allclose(g(x, w, b), expected, rtol=1e-5, atol=1e-5)
        x, w = rng.standard_normal((7, 5)).astype("float32").T, rng.standard_normal((6, 14)).astype("float32")[::2, ::2]
        b = np.zeros(3, "float32")
        np.testing.assert_allclose(g(x, w, b), x @ w.T, rtol=1e-5, atol=1e-5)
        self.refuses("E1001", "exact numerics fix the order", minic.compile, text, matmul="cublaslt", numerics="exact")
        self.refuses("E1102", "expected auto, generated or cublaslt", minic.compile, text, matmul="mkl")

    def test_strides(self):
        wide = np.full((4, 10), np.nan, "float32")
        views = [wide[:2, :3], wide[::2, 1:7:2], wide[1::-1, 2::-1], wide.T[:2, :3], wide[2:, 7:]]
        for view in views:
            wide[:] = np.nan
            view[:] = self.x
            np.testing.assert_array_equal(self.scale(view, self.w), self.y)
            kept = wide.copy()
            wide[:] = 7  # Into it: nothing between the elements changes.
            self.scale.run([self.x, self.w], [view])
            np.testing.assert_array_equal(view, self.y)
            wide[~np.isnan(kept)] = 7
            np.testing.assert_array_equal(wide, 7)
        row = np.broadcast_to(self.x[:1], (2, 3))
        np.testing.assert_array_equal(self.scale(row, self.w), row * self.w * 2)
        np.testing.assert_array_equal(self.scale(self.x, np.repeat(self.w, 2)[::2]), self.y)
        packed = np.zeros(25, "uint8")[1:].view("float32").reshape(2, 3)  # Not even aligned to an element.
        packed[:] = self.x
        np.testing.assert_array_equal(self.scale(packed, self.w), self.y)
        with self.assertRaisesRegex(TypeError, "result 'y' has elements at addresses that are no multiples of their 4 bytes"):
            self.scale.run([self.x, self.w], [packed])
        shared = np.lib.stride_tricks.as_strided(np.zeros(6, "float32"), (2, 3), (4, 4))
        self.refuses("E0602", "result 'y' has elements that share memory", self.scale.run, [self.x, self.w], [shared])

    def test_specialize(self):
        text = """graph @g(%x: tensor<MxNxf32>) -> (y: tensor<Mxf32>) {
            %y = reduce sum %x, axes = [1] : tensor<Mxf32>
            return %y
        }"""
        total = minic.compile(text, specialize=["N % 4 == 0", "M == 1, N <= 9"], numerics="exact").load("cpu")
        for shape in ((3, 8), (1, 3), (2, 3), (1, 0), (0, 4)):
            x = np.arange(np.prod(shape), dtype="float32").reshape(shape)
            np.testing.assert_array_equal(total(x), x.sum(1))
        self.refuses("E0506", "@g has no size called K", minic.compile, text, specialize=["K == 1"])
        dense = minic.compile(text, strides="dense").load("cpu")
        self.refuses("E0602", "input 'x' has strides [1, 2], expected [3, 1]", dense, np.zeros((3, 2), "float32").T)

    def test_what_does_not_fit(self):
        call = self.scale
        self.refuses("E0602", "input 'w' has shape 2xf32, expected 3xf32", call, self.x, self.w[:2])
        self.refuses("E0602", "input 'x' has shape 2x3xf64, expected MxNxf32", call, self.x.astype("float64"), self.w)
        self.refuses("E0602", "input 'x' has shape 3xf32", call, self.w, self.w)
        self.refuses("E0603", "expected 2 inputs (x, w), given 1", call, self.x)
        self.refuses("E0602", "given 3", call, self.x, self.w, self.w)
        with self.assertRaisesRegex(TypeError, "input 'w' is a list"):
            call(self.x, [1, 2, 3])
        with self.assertRaisesRegex(TypeError, "no element type for NumPy's complex64"):
            call(self.x.astype("complex64"), self.w)
        np.testing.assert_array_equal(call(self.x, self.w), self.y)  # Still works.

    def test_types(self):
        for dtype, name in [("f64", "float64"), ("f16", "float16"), ("i32", "int32"), ("i64", "int64"), ("i1", "bool")]:
            with self.subTest(dtype):
                try:
                    exe = minic.compile(doubling(dtype)).load("cpu")
                except minic.MinicError as error:
                    self.assertEqual(error.code, "E0305", error)  # Not every op has every type.
                    continue
                x = np.array([1, 0, 1] if dtype == "i1" else [1, 2, 3], name)
                y = exe(x)
                self.assertEqual(y.dtype, x.dtype)
                np.testing.assert_array_equal(y, x if dtype == "i1" else x + x)

    def test_bf16_is_bits(self):
        exe = minic.compile(doubling("bf16")).load("cpu")
        bits = np.array([0x3F80, 0x4000, 0xC040], "uint16")  # 1, 2, -3
        got = exe(bits)
        np.testing.assert_array_equal(got.view("uint16"), [0x4000, 0x4080, 0xC0C0])
        if ml_dtypes:
            self.assertEqual(got.dtype, ml_dtypes.bfloat16)
            np.testing.assert_array_equal(exe(bits.view(ml_dtypes.bfloat16)).view("uint16"), [0x4000, 0x4080, 0xC0C0])
        tensor = minic.Tensor.from_numpy(bits, "cpu", dtype="bf16")
        self.assertEqual(exe(tensor).dtype, "bf16")
        with self.assertRaisesRegex(TypeError, "uint16"):
            minic.Tensor.from_numpy(bits, "cpu")

    def test_float8_is_bits(self):
        for dtype, one in (("f8e4m3", 0x38), ("f8e5m2", 0x3C)):
            text = "graph @g(%x: tensor<Nx{0}>) -> (y: tensor<Nxf32>, z: tensor<Nx{0}>) {{\n%y = convert %x : tensor<Nxf32>\n" \
                   "%h = constant 0.5 : tensor<Nxf32>\n%m = mul %y, %h : tensor<Nxf32>\n%z = convert %m : tensor<Nx{0}>\nreturn %y, %z\n}}"
            exe = minic.compile(text.format(dtype)).load("cpu")
            half = one - (8 if dtype == "f8e4m3" else 4)  # The exponent below.
            bits = np.array([0, one, one | 0x80, 0x7F], "uint8")
            y, z = exe(bits)
            np.testing.assert_array_equal(y, np.array([0, 1, -1, np.nan], "f4"))
            np.testing.assert_array_equal(z.view("uint8")[:3], [0, half, half | 0x80])
            if ml_dtypes:
                self.assertEqual(z.dtype, "float8_e4m3fn" if dtype == "f8e4m3" else "float8_e5m2")
                np.testing.assert_array_equal(exe(bits.view(z.dtype))[0], y)
            self.assertEqual(exe(minic.Tensor.from_numpy(bits, "cpu", dtype=dtype))[1].dtype, dtype)

    def test_weights(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "w.npy")
            np.save(path, self.w)
            for weights in ({"w": self.w}, {"w": path}, {"w": str(path)}, {"w": minic.Tensor.from_numpy(self.w, "cpu")}):
                exe = self.artifact.load("cpu", weights=weights)
                self.assertEqual([spec.name for spec in exe.inputs], ["x"])
                np.testing.assert_array_equal(exe(self.x), self.y)
            self.refuses("E0108", "none.npy", self.artifact.load, "cpu", weights={"w": "none.npy"})
        self.refuses("E0604", "no input called 'v'", self.artifact.load, "cpu", weights={"v": self.w})
        self.refuses("E0602", "weight 'w' has shape 2x3xf32", self.artifact.load, "cpu", weights={"w": self.x})

    def test_threads(self):
        failures = []

        def work(k):
            x = np.full((k, 3), k, "float32")
            for _ in range(10):
                if not np.array_equal(self.scale(x, self.w), 2 * k * np.broadcast_to(self.w, (k, 3))):
                    failures.append(k)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])


class Tensors(Case):
    def test_round_trip(self):
        t = minic.Tensor.from_numpy(self.x, "cpu")
        self.assertEqual((t.shape, t.dtype, t.device.name), ((2, 3), "f32", "cpu"))
        np.testing.assert_array_equal(t.numpy(), self.x)
        self.assertEqual(t.tobytes(), self.x.tobytes())
        t.write(array.array("f", range(6)))
        np.testing.assert_array_equal(t.numpy().ravel(), range(6))
        t.write(self.x.tobytes())
        np.testing.assert_array_equal(t.numpy(), self.x)
        self.refuses("E1102", "argument 'size' is 4, expected the buffer's 24 bytes", t.write, b"1234")

    def test_in_and_out(self):
        x, w = (minic.Tensor.from_numpy(a, "cpu") for a in (self.x, self.w))
        y = self.scale(x, w)
        self.assertIs(type(y), minic.Tensor)
        np.testing.assert_array_equal(y.numpy(), self.y)
        with minic.Stream("cpu") as stream, minic.Event("cpu") as before:
            before.record(stream)
            into = minic.Tensor((2, 3), "f32", "cpu", stream=stream)
            self.scale.run([x, w], [into], stream=stream)
            after = stream.record()
            stream.wait(after)
            after.synchronize()
            self.assertTrue(after.done)
            self.assertGreaterEqual(after.elapsed_since(before), 0)
            np.testing.assert_array_equal(into.numpy(), self.y)
        self.refuses("E0602", "input 'x' lies on a device, and other tensors of the call in host memory", self.scale, x, self.w)

    def test_capture(self):
        x, w = (minic.Tensor.from_numpy(a, "cpu") for a in (self.x, self.w))
        y = minic.Tensor((2, 3), "f32", "cpu")
        y.write(bytes(24))
        run = self.scale.capture([x, w], [y])
        np.testing.assert_array_equal(y.numpy(), np.zeros((2, 3)))
        run.launch()
        np.testing.assert_array_equal(y.numpy(), self.y)
        x.write(np.ones((2, 3), "float32"))
        run.launch(stream=minic.Stream("cpu"))
        np.testing.assert_array_equal(y.numpy(), np.tile(2 * self.w, (2, 1)))
        with self.assertRaisesRegex(TypeError, "captured on tensors of the device"):
            self.scale.capture([self.x, self.w], [y])

    def test_dlpack_out(self):
        t = minic.Tensor.from_numpy(self.x, "cpu")
        self.assertEqual(t.__dlpack_device__(), (1, 0))
        seen = np.from_dlpack(t)
        t.close()
        np.testing.assert_array_equal(seen, self.x)
        t = minic.Tensor.from_numpy(self.x, "cpu")
        self.assertIn('"dltensor"', repr(t.__dlpack__()))  # Never taken: the capsule destroys it.
        self.assertIn("dltensor_versioned", repr(t.__dlpack__(max_version=(1, 1))))
        with self.assertRaises(BufferError):
            t.__dlpack__(copy=False)
        with self.assertRaises(BufferError):
            t.__dlpack__(dl_device=(2, 0))

    def test_dlpack_in(self):
        held = np.arange(6, dtype="float32").reshape(2, 3)
        t = minic.Tensor.from_dlpack(held)
        np.testing.assert_array_equal(t.numpy(), held)
        scalar = minic.Tensor.from_dlpack(np.array(3, "int32"))
        self.assertEqual((scalar.shape, scalar.dtype, scalar.numpy().item()), ((), "i32", 3))
        with self.assertRaisesRegex(BufferError, "dense"):
            minic.Tensor.from_dlpack(held.T)

    def test_dlpack_of_others(self):
        """Objects that know DLPack and nothing else, with and without versions; each capsule is let go of once."""
        test = self

        class Other:
            def __init__(self, held, versions):
                self.held, self.versions, self.taken = held, versions, 0

            def __dlpack_device__(self):
                return (1, 0)

            def __dlpack__(self, **more):
                if not self.versions and "max_version" in more:
                    raise TypeError("unexpected keyword argument")
                test.assertIsNone(more.get("stream"))  # There are none for host memory.
                self.taken += 1
                return self.held.__dlpack__(**more)

        for versions in (False, True):
            x, w = self.x.copy(), self.w.copy()
            gone = weakref.ref(x)
            y = self.scale(Other(x, versions), Other(w, versions))
            self.assertIs(type(y), minic.Tensor)
            np.testing.assert_array_equal(y.numpy(), self.y)
            self.assertEqual(self.artifact.load("cpu", weights={"w": Other(w, versions)})(x).tolist(), self.y.tolist())
            with self.assertRaisesRegex(TypeError, "result 'y' is a Other"):
                self.scale.run([Other(x, versions), Other(w, versions)], [Other(self.y.copy(), versions)])
            del x, w, y
            gc.collect()
            self.assertIsNone(gone())

    def test_closed(self):
        x, w = (minic.Tensor.from_numpy(a, "cpu") for a in (self.x, self.w))
        self.scale(x, w)
        w.close()
        self.refuses("E1101", "input 'w' was closed", self.scale, x, w)
        self.refuses("E1101", "argument 'buffer' was destroyed already", w.numpy)
        exe = self.artifact.load("cpu")
        with exe:
            pass
        exe.close()
        self.refuses("E1101", "argument 'executable' was destroyed already", exe, self.x, self.w)
        stream = minic.Stream("cpu")
        stream.close()
        self.refuses("E1101", "argument 'stream' was destroyed already", stream.synchronize)

    def test_memory_is_given_back(self):
        """Of tensors that are dropped, and of capsules that nobody takes."""

        def resident():
            return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

        zeros = np.zeros(1 << 20, "float32")
        for taken in (lambda t: None, lambda t: t.__dlpack__(), lambda t: t.__dlpack__(max_version=(1, 0)), np.from_dlpack):
            taken(minic.Tensor.from_numpy(zeros, "cpu"))
            before = resident()
            for _ in range(50):
                taken(minic.Tensor.from_numpy(zeros, "cpu"))
            self.assertLess(resident() - before, 10 * zeros.nbytes)

    def test_devices(self):
        self.assertEqual(minic.Device("cpu").compute_capability, 0)
        self.assertEqual(minic.Device("cpu"), minic.Device("cpu"))
        self.refuses("E1102", "argument 'name' is 'tpu'", minic.Device, "tpu")
        self.refuses("E1101", "is NULL", lambda: minic._library.check(minic._library.lib.minic_stream_synchronize(None)))

    def test_streams_of_others(self):
        class Torch:
            cuda_stream = 7

        class Cupy:
            ptr = 8

        class Protocol:
            def __cuda_stream__(self):
                return 0, 9

        handle = minic._device.stream_handle
        self.assertEqual([handle(s) for s in (6, Torch(), Cupy(), Protocol())], [6, 7, 8, 9])
        self.assertEqual(minic._device.stream_handle(minic.Device("cpu").borrow(0)), 0)
        with self.assertRaisesRegex(TypeError, "a stream is a number"):
            handle("x")


@unittest.skipUnless(torch, "torch is not installed")
class Torch(Case):
    def test_call(self):
        x, w = torch.from_numpy(self.x), torch.from_numpy(self.w)
        y = self.scale(x, w)
        self.assertIs(type(y), torch.Tensor)
        np.testing.assert_array_equal(y.numpy(), self.y)
        self.scale.run([x, w], [y.zero_()])
        np.testing.assert_array_equal(y.numpy(), self.y)
        np.testing.assert_array_equal(self.scale(torch.from_numpy(self.x.T.copy()).T, w).numpy(), self.y)
        into = torch.full((4, 6), 7.0)
        self.scale.run([x, w.flip(0).flip(0)], [into[1:3, ::2]])
        np.testing.assert_array_equal(into[1:3, ::2].numpy(), self.y)
        np.testing.assert_array_equal(into[:, 1::2].numpy(), np.full((4, 3), 7, "float32"))
        with self.assertRaisesRegex(TypeError, "input 'w' requires grad"):
            self.scale(x, w.clone().requires_grad_())
        with torch.no_grad():
            self.scale(x, torch.nn.Parameter(w))
        with self.assertRaisesRegex(TypeError, "input 'x' is of torch.complex64"):
            self.scale(x.to(torch.complex64), w)

    def test_bf16(self):
        exe = minic.compile(doubling("bf16")).load("cpu")
        y = exe(torch.tensor([1, 2, -3], dtype=torch.bfloat16))
        self.assertEqual(y.dtype, torch.bfloat16)
        self.assertEqual(y.tolist(), [2, 4, -6])

    def test_float8(self):
        for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
            name = "f8e4m3" if dtype == torch.float8_e4m3fn else "f8e5m2"
            text = f"graph @g(%x: tensor<Nx{name}>) -> (y: tensor<Nx{name}>) {{\n%y = reshape %x : tensor<Nx{name}>\nreturn %y\n}}"
            x = torch.tensor([1, 2, -3]).to(dtype)
            y = minic.compile(text).load("cpu")(x)
            self.assertEqual(y.dtype, dtype)
            self.assertEqual(y.float().tolist(), [1, 2, -3])

    def test_dlpack(self):
        t = minic.Tensor.from_dlpack(torch.from_numpy(self.x))
        np.testing.assert_array_equal(torch.from_dlpack(t).numpy(), self.x)

    def test_weights(self):
        w = torch.nn.Parameter(torch.from_numpy(self.w))
        np.testing.assert_array_equal(self.artifact.load("cpu", weights={"w": w})(self.x), self.y)


@unittest.skipUnless(jax, "jax is not installed")
class Jax(Case):
    def test_call(self):
        with jax.default_device(jax.devices("cpu")[0]):
            y = self.scale(jax.numpy.asarray(self.x), jax.numpy.asarray(self.w))
        self.assertIsInstance(y, jax.Array)
        np.testing.assert_array_equal(np.asarray(y), self.y)


class Processes(unittest.TestCase):
    def run_program(self, program, **environment):
        return subprocess.run(
            [sys.executable, "-B", "-c", program], capture_output=True, text=True, env={**os.environ, **environment}, timeout=300
        )

    def test_exit_with_everything_alive(self):
        done = self.run_program(
            f"""
import minic, numpy
exe = minic.compile({SCALE!r}).load("cpu")
x = minic.Tensor.from_numpy(numpy.ones((2, 3), "float32"), "cpu")
w = minic.Tensor.from_numpy(numpy.ones(3, "float32"), "cpu")
y = exe(x, w)
capsule, stream, loop = y.__dlpack__(), minic.Stream("cpu"), []
loop.append((loop, exe, y, stream))
print("end")
"""
        )
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "end\n", ""))

    def test_fork(self):
        done = self.run_program(
            f"""
import minic, numpy, os, sys
one = numpy.ones((1, 1), "float32")
exe = minic.compile({SCALE!r}).load("cpu")
exe(one, one[0])
child = os.fork()
if child == 0:
    try:
        exe(one, one[0])
    except minic.MinicError as error:
        print("belongs to the process that this one was forked from" in str(error))
    del exe
    print(minic.compile({SCALE!r}).load("cpu")(one, one[0]).tolist(), flush=True)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), exe(one, one[0]).tolist())
"""
        )
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "True\n[[2.0]]\n0 [[2.0]]\n", ""))

    def test_library_that_is_not_there(self):
        done = self.run_program("import minic", MINIC_LIBRARY="/nowhere/libminic.so")
        self.assertIn("ImportError: MINIC_LIBRARY names /nowhere/libminic.so, which is not there", done.stderr)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "libminic.so")
            path.write_bytes(b"no library")
            done = self.run_program("import minic", MINIC_LIBRARY=str(path))
            self.assertIn("cannot be loaded", done.stderr)


@unittest.skipUnless(torch and torch.cuda.is_available(), "there is no GPU for torch")
class TorchOnGpu(Case):
    def test_strides(self):
        scale = minic.compile(SCALE, device="cuda").load("cuda")
        x, w, y = (torch.from_numpy(array).cuda() for array in (self.x, self.w, self.y))
        wide = torch.full((8, 16), 7.0, device="cuda")
        for view in (wide[1:3, 1:4], wide[::4, ::5][:, :3], wide.T[2:4, 5:8], wide[3:5, 8:11]):
            view.copy_(x)
            self.assertTrue(torch.equal(scale(view, w), y))
            wide.fill_(7)
            scale.run([x, w], [view])
            self.assertTrue(torch.equal(view, y))
            view.fill_(7)
            self.assertTrue(bool((wide == 7).all()))  # Nothing between the elements was written.
        self.assertTrue(torch.equal(scale(x[:1].expand(2, 3), w), x[:1].expand(2, 3) * w * 2))
        misaligned = torch.zeros(7, device="cuda")[1:].view(2, 3).copy_(x)
        self.assertTrue(torch.equal(scale(misaligned, w), y))
        left, right = wide[:2, :3], wide[:2, 3:6]
        left.copy_(x)
        scale.run([left, w], [right])
        self.assertTrue(torch.equal(right, y))
        self.refuses("E0602", "result 'y' overlaps input 'x'", scale.run, [left, w], [wide[:2, 2:5]])
        outside = torch.as_strided(wide, (2, 3), (1, 1))
        self.refuses("E0602", "result 'y' has elements that share memory", scale.run, [x, w], [outside])


if __name__ == "__main__":
    unittest.main()
