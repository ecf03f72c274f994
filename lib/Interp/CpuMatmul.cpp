// Products of a library, by their meaning: each element a chain of fused multiply-adds in f32 (f64 of f64), then bias and relu, and
// one rounding. A library adds in another order, so its numbers differ within the bound that any order has.
#include "CpuDeviceImpl.h"
#include "minic/IR/ScalarEval.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace minic {

namespace {

/// Elements of memory as numbers of the type that sums have.
template <typename T> std::vector<T> unpack(const std::byte *data, int64_t count, DType dtype) {
  std::vector<T> numbers(static_cast<size_t>(count));
  size_t bytes = size_t(dtypeBytes(dtype));
  for (size_t i = 0; i < numbers.size(); ++i) {
    Scalar element;
    std::memcpy(&element.bits, data + i * bytes, bytes); // Little-endian: the low bytes.
    numbers[i] = T(element.toDouble(dtype));
  }
  return numbers;
}

void pack(std::byte *data, double number, int64_t i, DType dtype) {
  size_t bytes = size_t(dtypeBytes(dtype));
  Scalar element = Scalar::of(number, dtype);
  std::memcpy(data + size_t(i) * bytes, &element.bits, bytes);
}

/// One problem on the operands' memory: lhs, rhs, the bias if there is one, the result.
template <typename T> void multiplyMatrices(const MatmulProblem &p, std::span<std::byte *const> memory) {
  auto matrices = [&](bool repeats) { return repeats ? 1 : p.batches; };
  std::vector<T> lhs = unpack<T>(memory[0], matrices(p.lhsRepeats) * p.rows * p.depth, p.operand);
  std::vector<T> rhs = unpack<T>(memory[1], matrices(p.rhsRepeats) * p.depth * p.columns, p.operand);
  std::vector<T> bias(static_cast<size_t>(p.columns), T(0)), sums(static_cast<size_t>(p.columns));
  if (p.call.hasBias())
    bias = unpack<T>(memory[2], p.columns, p.result);
  int64_t lhsRow = p.call.transposedLhs ? 1 : p.depth, lhsStep = p.call.transposedLhs ? p.rows : 1;
  int64_t rhsRow = p.call.transposedRhs ? 1 : p.columns, rhsStep = p.call.transposedRhs ? p.depth : 1;
  for (int64_t batch = 0; batch < p.batches; ++batch)
    for (int64_t row = 0; row < p.rows; ++row) {
      const T *x = lhs.data() + (p.lhsRepeats ? 0 : batch * p.rows * p.depth) + row * lhsRow;
      const T *w = rhs.data() + (p.rhsRepeats ? 0 : batch * p.depth * p.columns);
      std::ranges::fill(sums, T(0));
      for (int64_t k = 0; k < p.depth; ++k)
        for (int64_t column = 0; column < p.columns; ++column)
          sums[size_t(column)] = std::fma(x[k * lhsStep], w[k * rhsRow + column * rhsStep], sums[size_t(column)]);
      for (int64_t column = 0; column < p.columns; ++column) {
        T value = sums[size_t(column)] + bias[size_t(column)];
        pack(memory.back(), double(value), (batch * p.rows + row) * p.columns + column, p.result);
      }
    }
}

/// Bytes of each operand.
std::vector<int64_t> operandBytes(const MatmulProblem &p) {
  int64_t operand = dtypeBytes(p.operand), result = dtypeBytes(p.result);
  std::vector<int64_t> bytes = {(p.lhsRepeats ? 1 : p.batches) * p.rows * p.depth * operand,
                                (p.rhsRepeats ? 1 : p.batches) * p.depth * p.columns * operand};
  if (p.call.hasBias())
    bytes.push_back(p.columns * result);
  bytes.push_back(p.batches * p.rows * p.columns * result);
  return bytes;
}

class CpuMatmul final : public PreparedLaunch {
public:
  CpuMatmul(CpuDevice::Impl &device, MatmulProblem problem) : device(device), problem(std::move(problem)) {}

  Expected<void> enqueue(StreamHandle stream, std::span<const DeviceMemory> buffers) const override {
    return device.order(stream, [&device = device, problem = problem, buffers = std::vector(buffers.begin(), buffers.end())] {
      return device.multiply(problem, buffers);
    });
  }

private:
  CpuDevice::Impl &device;
  MatmulProblem problem;
};

} // namespace

Expected<void> CpuDevice::Impl::multiply(const MatmulProblem &problem, std::span<const DeviceMemory> buffers) {
  std::vector<int64_t> bytes = operandBytes(problem);
  std::string who = "the library's product for " + problem.name;
  if (buffers.size() != bytes.size())
    return deviceError(ErrorCode::LaunchMismatch,
                       who + " takes " + std::to_string(bytes.size()) + " buffers, not " + std::to_string(buffers.size()));
  std::vector<std::byte *> memory;
  LaunchTraffic launch{.kernel = "cublaslt matmul"};
  for (size_t i = 0; i < buffers.size(); ++i) {
    auto place = find(buffers[i], bytes[i]);
    if (!place)
      return place.takeErrors();
    bool isResult = i + 1 == buffers.size();
    if (!isResult && !interp::allDefined(place->defined(), 0, bytes[i]))
      return deviceError(ErrorCode::UndefinedRead, who + " reads operand " + std::to_string(i) + ", and nothing defined all of it");
    if (isResult) {
      std::memset(place->defined(), 1, size_t(bytes[i]));
      place->allocation->storedBy = who;
    }
    memory.push_back(place->data());
    launch.buffers.push_back(isResult ? BufferTraffic{0, bytes[i], 0, bytes[i]} : BufferTraffic{bytes[i], 0, bytes[i], 0});
  }
  if (problem.operand == DType::F64)
    multiplyMatrices<double>(problem, memory);
  else
    multiplyMatrices<float>(problem, memory);
  if (options.countTraffic)
    traffic.push_back(std::move(launch));
  return {};
}

Expected<std::unique_ptr<PreparedLaunch>> CpuDevice::prepareMatmul(const MatmulProblem &problem) {
  return std::unique_ptr<PreparedLaunch>(std::make_unique<CpuMatmul>(*impl, problem));
}

} // namespace minic
