"""What the package makes of tensors on a GPU, with a torch that is made up: no GPU is needed."""

import sys
import types
import unittest
from unittest import mock

import minic
from minic import _arguments, _executable, _types


class FakeStream:
    def __init__(self, handle, log):
        self.cuda_stream, self.log = handle, log

    def wait_stream(self, other):
        self.log.append(("wait", self.cuda_stream, other.cuda_stream))


class FakeTensor:
    requires_grad = False
    is_cuda = True

    def __init__(self, address, shape, dtype="torch.float32", index=0, log=None):
        self.address, self.shape, self.dtype, self.log = address, shape, dtype, log
        self.device = types.SimpleNamespace(type="cuda", index=index)

    def data_ptr(self):
        return self.address

    def stride(self):
        return (self.shape[1], 1)

    def record_stream(self, stream):
        self.log.append(("keep", self.address, stream.cuda_stream))


def fake_torch(log, current):
    torch = types.SimpleNamespace(Tensor=FakeTensor, is_grad_enabled=lambda: True)
    torch._C = types.SimpleNamespace(_cuda_getCurrentRawStream=lambda index: current)
    torch.cuda = types.SimpleNamespace(
        current_stream=lambda index: FakeStream(current, log),
        default_stream=lambda index: FakeStream(0, log),
        ExternalStream=lambda handle, device: FakeStream(handle, log),
    )
    return torch


class CudaPaths(unittest.TestCase):
    gpu = types.SimpleNamespace(kind=2, ordinal=0)

    def arguments(self, count=1):
        specs = [_types.TensorSpec(f"t{i}", "f32", ("M", "N")) for i in range(count)]
        return _arguments.Arguments(specs, "input", self.gpu)

    def test_descriptions(self):
        arguments = self.arguments()
        with mock.patch.dict(sys.modules, torch=fake_torch([], 0)):
            self.assertTrue(arguments.fill([FakeTensor(0x1000, (2, 3))], 0))
            element = arguments._elements[0]
            self.assertEqual((element.memory, element.dtype, element.rank), (0x1000, 2, 2))
            self.assertEqual((element.device_kind, element.device_ordinal), (2, 0))
            self.assertEqual([list(numbers) for numbers in arguments._numbers[0]], [[2, 3], [3, 1]])
            self.assertFalse(arguments.fill([FakeTensor(0x2000, (2, 3))], 0))  # Only the address is new.
            self.assertEqual(element.memory, 0x2000)
            self.assertTrue(arguments.fill([FakeTensor(0x2000, (2, 3), index=1)], 0))
            self.assertEqual(element.device_ordinal, 1)
            self.assertTrue(arguments.fill([FakeTensor(0x2000, (4, 3))], 0))

    def test_host_memory_of_torch_is_not_copied_to_a_gpu(self):
        arguments, tensor = self.arguments(), FakeTensor(0x1000, (2, 3))
        tensor.device.type = "cpu"
        with mock.patch.dict(sys.modules, torch=fake_torch([], 0)):
            arguments.fill([tensor], 0)
        self.assertEqual(arguments.places, [_arguments.DEVICE])
        self.assertEqual(arguments._elements[0].device_kind, 1)  # The library says that it lies on cpu.

    def test_order(self):
        for current, handle, expected in [
            (5, 5, []),
            (5, 9, [("wait", 9, 5), ("keep", 0x1000, 9), ("keep", 0x2000, 9)]),
            (5, 0, [("wait", 0, 5), ("keep", 0x1000, 0), ("keep", 0x2000, 0)]),
        ]:
            log = []
            tensors = [FakeTensor(address, (2, 3), log=log) for address in (0x1000, 0x2000)]
            with mock.patch.dict(sys.modules, torch=fake_torch(log, current)):
                _executable._order_torch(handle, 0, tensors[:1], tensors[1:])
                self.assertEqual(log, expected)
                self.assertEqual(_executable._current_stream(tensors[0], 0), current)

    def test_streams_that_producers_are_told(self):
        told = []

        class Producer:
            def __dlpack_device__(self):
                return (2, 0)

            def __dlpack__(self, *, stream, max_version):
                told.append(stream)
                raise BufferError("enough")

        for handle in (0, 7):
            with self.assertRaisesRegex(BufferError, "enough"):
                minic.Tensor.from_dlpack(Producer(), stream=handle)
        self.assertEqual(told, [1, 7])  # 1 is what DLPack calls CUDA's default stream.


if __name__ == "__main__":
    unittest.main()
