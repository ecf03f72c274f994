// The CUDA driver of this process: opened at run time, so that no toolkit is needed to build and no driver to load minic.
#pragma once

#include "minic/Artifact/Device.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace minic {

class CudaDevice;

/// The opened driver. Cheap to have several of.
class Client : public std::enable_shared_from_this<Client> {
public:
  /// Errors: NoDriver, NoDevice, each with what to do.
  static Expected<std::shared_ptr<Client>> open();
  ~Client();

  int deviceCount() const;
  int driverVersion() const; ///< 12080 for CUDA 12.8.
  /// A device in its primary context, which other libraries of the process share.
  Expected<std::shared_ptr<CudaDevice>> device(int ordinal);
  /// The device of a CUcontext that the caller made and keeps.
  Expected<std::shared_ptr<CudaDevice>> adopt(void *context);

private:
  friend class CudaDevice;
  struct Impl;
  std::unique_ptr<Impl> impl;
};

/// Whether there is a CUDA device that this process can use; if not, `why` says what is missing, in one line.
bool cudaAvailable(std::string &why);
/// N of `cuda` (0) and `cuda:N`; nullopt if the name is neither.
std::optional<int> cudaOrdinal(std::string_view name);

} // namespace minic
