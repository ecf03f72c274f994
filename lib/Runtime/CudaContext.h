// What a CudaDevice holds. Private to lib/Runtime.
#pragma once

#include "CublasLt.h"
#include "DriverApi.h"
#include "ModuleCache.h"
#include "Staging.h"
#include "minic/Runtime/CudaDevice.h"

#include <array>
#include <atomic>
#include <mutex>
#include <optional>
#include <set>

namespace minic {

/// The kernels launched last, to name those that may be at fault. Written at every launch, so it takes no lock: what it says is
/// read after the context has failed.
class RecentLaunches {
public:
  /// `what` must stay.
  void add(const std::string *what, cuda::CuStream stream);
  void clear(cuda::CuStream stream);
  void clearAll();
  std::set<std::string> list() const;

private:
  struct Entry {
    std::atomic<const std::string *> what = nullptr;
    std::atomic<cuda::CuStream> stream = nullptr;
  };
  std::array<Entry, 32> entries;
  std::atomic<unsigned> next = 0;
};

struct CudaDevice::Impl {
  Impl(std::shared_ptr<Client> client, const cuda::DriverApi &api)
      : client(std::move(client)), api(api), modules(api), staging(api) {}

  std::shared_ptr<Client> client;
  const cuda::DriverApi &api;
  cuda::ModuleCache modules;
  cuda::Staging staging;
  int ordinal = 0;
  cuda::CuDevice device = 0;
  cuda::CuContext context = nullptr;
  bool retained = false;          ///< The primary context, to be released.
  cuda::CuMemPool pool = nullptr; ///< Null where the device has no pools.
  GpuProperties properties{};
  RecentLaunches recent;
  std::atomic<bool> isLost = false;
  std::mutex mutex;               ///< Of what follows.
  std::optional<Diagnostic> lost; ///< Why the context cannot be used any more.
  std::set<std::string> kernels;  ///< What `recent` points to.

  std::mutex libraryMutex;                  ///< Of what follows.
  std::unique_ptr<cuda::CublasLt> cublasLt; ///< Null until a plan calls it.

  /// The context is current.
  Expected<cuda::CublasLt *> openCublasLt();
  /// `what: CUDA_ERROR_...`. A sticky error is kept for all later calls.
  Diagnostic fail(cuda::CuResult result, std::string what);
  /// Nothing, or the error.
  Expected<void> check(cuda::CuResult result, const char *what) {
    return result == cuda::success ? Expected<void>() : Expected<void>(fail(result, what));
  }
  const std::string *keep(std::string kernel);
};

/// Makes the device's context current for a block; afterwards the one before is.
class ContextScope {
public:
  explicit ContextScope(CudaDevice::Impl &device);
  ~ContextScope();
  ContextScope(const ContextScope &) = delete;
  explicit operator bool() const { return bool(entered); }
  Diagnostics takeErrors() { return entered.takeErrors(); }

private:
  CudaDevice::Impl &device;
  bool pushed = false;
  Expected<void> entered;
};

/// Where the thread's launches are noted as well, while it captures a graph; else null.
extern thread_local std::set<const std::string *> *capturedLaunches;

} // namespace minic
