// Products that cuBLASLt computes: descriptions and algorithms, made once for each problem.
#pragma once

#include "CublasLtApi.h"
#include "minic/Artifact/Device.h"

#include <map>
#include <memory>
#include <mutex>

namespace minic::cuda {

/// What an algorithm may take: what cuBLAS takes by itself on Hopper (cuBLAS, cublasSetWorkspace).
inline constexpr size_t maxLtWorkspace = size_t(32) << 20;

/// An object of the library, destroyed by it.
template <typename T> struct LtDestroyer {
  using pointer = T;
  LtStatus (*destroy)(T) = nullptr;
  void operator()(T object) const { destroy(object); }
};
template <typename T> using LtOwned = std::unique_ptr<T, LtDestroyer<T>>;

/// One problem with its descriptions and the algorithm that the library suggests.
class LtMatmul {
public:
  /// The handle's context is current.
  static Expected<std::shared_ptr<const LtMatmul>> create(const CublasLtApi &api, LtHandle handle, const MatmulProblem &problem);

  size_t workspaceBytes() const { return suggestion.workspaceBytes; }
  /// `buffers`: lhs, rhs, the bias if there is one, the result, and the workspace if it needs one. Callable from several threads at
  /// a time.
  LtStatus enqueue(CuStream stream, std::span<const DeviceMemory> buffers) const;

private:
  friend class LtMatmulBuilder;
  LtMatmul(const CublasLtApi &api, LtHandle handle, MatmulCall call, DType operand)
      : api(api), handle(handle), call(call), operand(operand) {}

  const CublasLtApi &api;
  LtHandle handle;
  MatmulCall call;
  DType operand;
  LtOwned<LtMatmulDesc> desc;
  LtOwned<LtLayout> a, b, d;
  LtHeuristicResult suggestion{};
  mutable std::mutex mutex; ///< Of the bias's address, which is a part of `desc`.
};

/// The library in one context.
class CublasLt {
public:
  /// The context is current, here and at the end.
  static Expected<std::unique_ptr<CublasLt>> create(const CublasLtApi &api);
  ~CublasLt() { api.cublasLtDestroy(handle); }
  CublasLt(const CublasLt &) = delete;

  const CublasLtApi &functions() const { return api; }
  /// The same for the same problem; the context is current.
  Expected<std::shared_ptr<const LtMatmul>> find(const MatmulProblem &problem);

private:
  explicit CublasLt(const CublasLtApi &api) : api(api) {}
  const CublasLtApi api;
  LtHandle handle = nullptr;
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const LtMatmul>> known; ///< By what the library is asked.
};

} // namespace minic::cuda
