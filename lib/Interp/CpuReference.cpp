// Kernels that are PTX, which the interpreter cannot run: the graph that they compute is evaluated instead.
#include "CpuDeviceImpl.h"
#include "minic/IR/CustomOp.h"
#include "minic/Interp/Oracle.h"

#include <cstring>

namespace minic {
namespace {

class ReferenceLaunch final : public PreparedLaunch {
public:
  struct Buffer {
    std::string name;
    DType dtype;
    std::vector<int64_t> shape;
  };
  struct Work { // Captured work may outlive the launch.
    std::shared_ptr<ParsedText> keeper;
    const Function *custom;
    std::string kernel;
    std::vector<Buffer> buffers; ///< Operands, then results.
    DimBindings dims;            ///< Of the custom op.
  };
  ReferenceLaunch(CpuDevice::Impl &device, Work work) : device(device), work(std::make_shared<Work>(std::move(work))) {}

  Expected<void> enqueue(StreamHandle stream, std::span<const DeviceMemory> memory) const override {
    return device.order(stream, [&device = device, work = work, memory = std::vector(memory.begin(), memory.end())] {
      return evaluate(device, *work, memory);
    });
  }

private:
  static Expected<void> evaluate(CpuDevice::Impl &device, const Work &work, std::span<const DeviceMemory> memory) {
    size_t numInputs = work.custom->params().size();
    LaunchTraffic launch{.kernel = work.kernel};
    std::vector<HostTensor> inputs;
    std::vector<CpuDevice::Impl::Place> results;
    for (size_t i = 0; i < memory.size(); ++i) {
      const Buffer &buffer = work.buffers[i];
      HostTensor tensor(buffer.dtype, buffer.shape);
      auto place = device.find(memory[i], int64_t(tensor.bytes().size()));
      if (!place)
        return place.takeErrors();
      auto bytes = int64_t(tensor.bytes().size());
      launch.buffers.push_back(i < numInputs ? BufferTraffic{bytes, 0, bytes, 0} : BufferTraffic{0, bytes, 0, bytes});
      if (i >= numInputs) {
        results.push_back(*place);
        continue;
      }
      if (!interp::allDefined(place->defined(), 0, int64_t(tensor.bytes().size())))
        return deviceError(ErrorCode::UndefinedRead, "the buffer '" + buffer.name + "' of kernel '" + work.kernel +
                                                         "' was never stored, and its PTX may read all of it");
      if (!tensor.bytes().empty())
        std::memcpy(tensor.bytes().data(), place->data(), tensor.bytes().size());
      inputs.push_back(std::move(tensor));
    }
    auto values = evaluateGraph(*work.custom, inputs, work.dims);
    if (!values)
      return values.takeErrors();
    for (size_t i = 0; i < results.size(); ++i) {
      std::span<const std::byte> bytes = (*values)[i].bytes();
      if (bytes.empty())
        continue;
      std::memcpy(results[i].data(), bytes.data(), bytes.size());
      std::memset(results[i].defined(), 1, bytes.size());
      results[i].allocation->storedBy = "'" + work.buffers[numInputs + i].name + "' of kernel '" + work.kernel + "'";
    }
    if (device.options.countTraffic)
      device.traffic.push_back(std::move(launch));
    return {};
  }

  CpuDevice::Impl &device;
  std::shared_ptr<const Work> work;
};

} // namespace

Expected<std::unique_ptr<PreparedLaunch>>
CpuDevice::Impl::prepareReference(const Operation &ptx, std::shared_ptr<ParsedText> keeper, const DimBindings &dims) {
  const Function &kernel = ptx.function();
  const Function *custom = customOf(ptx);
  if (!custom)
    return Diagnostic{.code = ErrorCode::CannotInterpret,
                      .message = "kernel '" + kernel.name + "' is PTX, which the interpreter cannot run, and names no reference",
                      .loc = ptx.loc(),
                      .fix = "run it on a GPU, or write `reference = @f` with the custom op that it computes"};
  ReferenceLaunch::Work work{.keeper = std::move(keeper), .custom = custom, .kernel = kernel.name};
  std::vector<Type> types;
  for (const Value *param : kernel.params()) {
    Type type = param->type();
    types.push_back(type);
    ReferenceLaunch::Buffer &buffer = work.buffers.emplace_back(ReferenceLaunch::Buffer{param->name(), type.dtype(), {}});
    for (const DimExpr &size : type.shape()) {
      auto value = size.evaluate(dims);
      if (!value)
        return deviceError(ErrorCode::UnboundDim, "the size " + size.str() + " of kernel '" + kernel.name + "' has no value");
      buffer.shape.push_back(*value);
    }
  }
  types.resize(std::min(types.size(), custom->params().size()));
  auto sizes = unifySizes(*custom, types);
  if (!sizes)
    return sizes.takeErrors();
  for (const auto &[name, size] : *sizes)
    work.dims[name] = *size.evaluate(dims);
  return std::unique_ptr<PreparedLaunch>(std::make_unique<ReferenceLaunch>(*this, std::move(work)));
}

} // namespace minic
