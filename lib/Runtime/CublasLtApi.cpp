#include "CublasLtApi.h"

#include <dlfcn.h>

namespace minic::cuda {

/// Finds every function; gives the name of the first that is missing.
static const char *resolve(CublasLtApi &api, void *handle) {
#define MINIC_CUBLASLT(result, name, parameters)                                                                                   \
  api.name = reinterpret_cast<result(*) parameters>(dlsym(handle, #name));                                                         \
  if (!api.name)                                                                                                                   \
    return #name;
#include "CublasLtApi.def"
#undef MINIC_CUBLASLT
  return nullptr;
}

Expected<CublasLtApi> CublasLtApi::open(std::span<const char *const> libraries) {
  auto noLibrary = [](std::string message) {
    return Diagnostic{.code = ErrorCode::NoLibrary,
                      .message = std::move(message),
                      .fix = "install CUDA's cuBLAS and put its folder into LD_LIBRARY_PATH, or compile with --matmul=generated"};
  };
  std::string tried;
  for (const char *library : libraries) {
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
      const char *why = dlerror();
      tried += (tried.empty() ? "" : "; ") + std::string(why ? why : library);
      continue;
    }
    CublasLtApi api;
    if (const char *missing = resolve(api, handle))
      return noLibrary("cuBLASLt '" + std::string(library) + "' has no function '" + missing + "'");
    return api;
  }
  return noLibrary("cannot open cuBLASLt, which the plan calls: " + tried);
}

std::string CublasLtApi::describe(LtStatus status) const {
  const char *name = cublasLtGetStatusName(status);
  return name ? name : "cuBLAS status " + std::to_string(status);
}

} // namespace minic::cuda
