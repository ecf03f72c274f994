"""The cache on disk and code for each shape, through the Python package on the interpreter."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import warnings

import numpy as np

import minic

SUM = """graph @sums(%x: tensor<MxNxf32>) -> (y: tensor<Mxf32>) {
  %y = reduce sum %x, axes = [1] : tensor<Mxf32>
  return %y
}"""


def numbers(*shape):
    """Small integers, whose sums are exact in any order."""
    return (np.arange(int(np.prod(shape))) % 17 - 8).astype("float32").reshape(shape)


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def refuses(self, code, says, call, *arguments, **more):
        with self.assertRaises(minic.MinicError) as caught:
            call(*arguments, **more)
        self.assertEqual(caught.exception.code, code, caught.exception)
        self.assertIn(says, str(caught.exception))


class Caches(Case):
    def test_artifacts_are_kept(self):
        cache = minic.Cache(self.folder / "c")
        minic.compile(SUM, device="cpu", cache=cache)
        self.assertEqual(cache.info[:2], (str(self.folder / "c"), True))
        self.assertEqual((cache.info.misses, cache.info.kept, cache.info.entries, cache.info.limit), (1, 1, 1, 1 << 30))
        later = minic.Cache(self.folder / "c", use="must-hit", limit=1 << 20)
        x = numbers(3, 5)
        np.testing.assert_array_equal(minic.compile(SUM, device="cpu", cache=later).load("cpu")(x), x.sum(1))
        self.assertEqual((later.info.hits, later.info.limit), (1, 1 << 20))
        self.refuses("E0910", "no artifact of 'sums' is kept", minic.compile, SUM, device="cpu", numerics="fast", cache=later)
        anew = minic.Cache(self.folder / "c", use="refresh")
        minic.compile(SUM, device="cpu", cache=anew)
        self.assertEqual((anew.info.hits, anew.info.kept), (0, 1))
        minic.Device("cpu").use_cache(cache)
        minic.Device("cpu").use_cache(None)
        cache.close()
        self.refuses("E1101", "destroyed", minic.compile, SUM, cache=cache)

    def test_damage_is_a_warning(self):
        cache = minic.Cache(self.folder)
        minic.compile(SUM, device="cpu", cache=cache)
        (entry,) = self.folder.glob("*.entry")
        entry.write_bytes(entry.read_bytes()[:-1])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            minic.compile(SUM, device="cpu", cache=cache)
        self.assertEqual(len(caught), 1)
        self.assertRegex(str(caught[0].message), "^the cache's entry .* is damaged")
        self.assertEqual(caught[0].filename, __file__)
        self.assertEqual(cache.info.damaged, 1)

    def test_refusals(self):
        self.refuses("E1102", "'options.use' is 'sometimes'", minic.Cache, self.folder, use="sometimes")
        self.refuses("E1102", "'options.use' is 'sometimes'", minic.compile, SUM, cache="sometimes")
        (self.folder / "file").write_text("")
        self.refuses("E0908", "file", minic.Cache, self.folder / "file")

    def test_words_are_for_the_usual_directory(self):
        program = """
import minic, pathlib, warnings
text = pathlib.Path(r"{text}").read_text()
minic.compile(text, device="cpu")
minic.compile(text, device="cpu", cache="off")
print(pathlib.Path(r"{folder}").exists())
warnings.simplefilter("error" if pathlib.Path(r"{folder}").name == "c" else "always")
for word in {words}:
    try:
        minic.compile(text, device="cpu", cache=word)
        print(word)
    except minic.MinicError as error:
        print(word, error.code)
"""
        (self.folder / "sum.ir").write_text(SUM)
        (self.folder / "file").write_text("")

        def run(name, *words):
            text = program.format(text=self.folder / "sum.ir", folder=self.folder / name, words=words)
            environment = {**os.environ, "MINIC_CACHE_DIR": str(self.folder / name)}
            return subprocess.run([sys.executable, "-c", text], env=environment, capture_output=True, text=True, check=True)

        done = run("c", "must-hit", "on", "refresh", "must-hit")
        self.assertEqual(done.stdout.split("\n")[:5], ["False", "must-hit E0910", "on", "refresh", "must-hit"])
        done = run("file", "on", "must-hit")  # A directory that cannot be used.
        self.assertEqual(done.stdout.split("\n")[:3], ["True", "on", "must-hit E0908"])
        self.assertRegex(done.stderr, r"<string>:\d+: UserWarning: nothing is cached: the cache's directory '.*/file' is no directory")


class Shapes(Case):
    def test_plans_are_counted(self):
        sums = minic.compile(SUM).load("cpu")
        self.assertEqual(sums.shapes, (0, 0, 0, 0, 0, 64))
        for shape in [(2, 3), (4, 5), (2, 3), (0, 3), (1, 1)]:
            x = numbers(*shape)
            np.testing.assert_array_equal(sums(x), x.sum(1))
        self.assertEqual((sums.shapes.misses, sums.shapes.compilations, sums.shapes.kept), (4, 0, 4))
        sums.limit_shapes(1)
        self.assertEqual((sums.shapes.evictions, sums.shapes.kept, sums.shapes.limit), (3, 1, 1))
        self.refuses("E1102", "argument 'limit' is 0", sums.limit_shapes, 0)

    def test_code_for_each_shape(self):
        cache = minic.Cache(self.folder)
        sums = minic.jit(SUM, "cpu", limit=2, cache=cache)

        def check(*shape):
            x = numbers(*shape)
            np.testing.assert_array_equal(sums(x), x.sum(1))

        for shape in [(2, 3), (4, 700), (2, 3), (5, 0), (1, 1)]:
            check(*shape)
        self.assertEqual(sums.shapes[1:], (4, 2, 4, 2, 2))
        self.assertEqual(cache.info.kept, 5)
        check(2, 3)  # Forgotten, and kept on disk.
        self.assertEqual((sums.shapes.compilations, cache.info.hits, cache.info.kept), (5, 1, 5))
        wide = np.asfortranarray(numbers(2, 3))  # Other strides need no other code.
        np.testing.assert_array_equal(sums(wide), wide.sum(1))
        self.assertEqual(sums.shapes.compilations, 5)

        sums.allow_compilation(False)
        check(2, 3)
        self.refuses("E0910", "'sums' has no code for M = 9, N = 9, and nothing may be compiled for a new shape", sums, numbers(9, 9))
        self.refuses("E0910", "it has code for M = 2, N = 3", sums, numbers(9, 9))
        sums.allow_compilation()
        check(9, 9)

    def test_forbidden_from_the_start(self):
        sums = minic.jit(SUM, "cpu", compile="forbid")
        self.refuses("E0910", "fix: allow compilation", sums, numbers(2, 2))
        with self.assertRaises(ValueError):
            minic.jit(SUM, "cpu", compile="never")
        self.refuses("E0602", "expected", minic.jit(SUM, "cpu"), numbers(2))

    def test_weights(self):
        text = """graph @g(%x: tensor<MxNxf32>, %w: tensor<NxMxf32>) -> (y: tensor<MxMxf32>) {
  %y = matmul %x, %w : tensor<MxMxf32>
  return %y
}"""
        w = numbers(4, 3)
        product = minic.jit(text, "cpu", weights={"w": w})
        np.testing.assert_array_equal(product(numbers(3, 4)), numbers(3, 4) @ w)
        self.assertEqual(product.shapes.compilations, 1)


if __name__ == "__main__":
    unittest.main()
