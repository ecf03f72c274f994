// Products of cuBLASLt on a CudaDevice.
#include "CudaContext.h"

namespace minic {

using namespace cuda;

namespace {

class CudaMatmul final : public PreparedLaunch {
public:
  CudaMatmul(CudaDevice::Impl &device, const CublasLtApi &api, std::shared_ptr<const LtMatmul> matmul, const std::string &name)
      : device(device), api(api), matmul(std::move(matmul)), what(device.keep("'cuBLASLt matmul' for " + name)) {}

  int64_t workspaceBytes() const override { return int64_t(matmul->workspaceBytes()); }

  Expected<void> enqueue(StreamHandle stream, std::span<const DeviceMemory> buffers) const override {
    ContextScope scope(device);
    if (!scope)
      return scope.takeErrors();
    CuStream order = static_cast<CuStream>(stream);
    if (LtStatus status = matmul->enqueue(order, buffers); status != lt::success)
      return Diagnostic{.code = ErrorCode::CudaError, .message = "cannot enqueue " + *what + ": " + api.describe(status)};
    device.recent.add(what, order);
    if (capturedLaunches)
      capturedLaunches->insert(what);
    return {};
  }

private:
  CudaDevice::Impl &device;
  const CublasLtApi &api;
  std::shared_ptr<const LtMatmul> matmul;
  const std::string *what;
};

} // namespace

Expected<CublasLt *> CudaDevice::Impl::openCublasLt() {
  std::lock_guard lock(libraryMutex);
  if (cublasLt)
    return cublasLt.get();
  auto functions = CublasLtApi::open();
  if (!functions)
    return functions.takeErrors();
  auto opened = CublasLt::create(*functions);
  if (!opened)
    return opened.takeErrors();
  cublasLt = std::move(*opened);
  return cublasLt.get();
}

Expected<std::unique_ptr<PreparedLaunch>> CudaDevice::prepareMatmul(const MatmulProblem &problem) {
  ContextScope scope(*impl);
  if (!scope)
    return scope.takeErrors();
  auto library = impl->openCublasLt();
  if (!library)
    return library.takeErrors();
  auto matmul = (*library)->find(problem);
  if (!matmul)
    return matmul.takeErrors();
  return std::unique_ptr<PreparedLaunch>(
      std::make_unique<CudaMatmul>(*impl, (*library)->functions(), std::move(*matmul), problem.name));
}

} // namespace minic
