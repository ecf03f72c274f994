#include "DriverCode.h"

#include <algorithm>

namespace minic::cuda {

namespace {

/// CUjit_option.
enum JitOption : int {
  InfoLogBuffer = 3,
  InfoLogBufferSize = 4,
  ErrorLogBuffer = 5,
  ErrorLogBufferSize = 6,
  Target = 9,
};
constexpr int inputPtx = 1;              // CU_JIT_INPUT_PTX
constexpr int acceleratedBase = 0x10000; // CU_COMPUTE_ACCELERATED_TARGET_BASE
constexpr size_t logSize = 16 * 1024;

/// The text in a log that the driver filled: up to its NUL, without the last line end.
std::string logText(const std::vector<char> &log) {
  std::string text(log.begin(), std::find(log.begin(), log.end(), '\0'));
  text.erase(text.find_last_not_of(" \r\n\t") + 1);
  return text;
}

void *asValue(size_t number) { return reinterpret_cast<void *>(number); }

} // namespace

JitLog::JitLog()
    : options{InfoLogBuffer, InfoLogBufferSize, ErrorLogBuffer, ErrorLogBufferSize}, info(logSize, '\0'), errors(logSize, '\0') {
  values = {info.data(), asValue(logSize - 1), errors.data(), asValue(logSize - 1)};
}

Diagnostic JitLog::error(const DriverApi &api, CuResult result, const std::string &what) const {
  Diagnostic error = api.error(result, what);
  for (const std::vector<char> *log : {&errors, &info})
    if (std::string text = logText(*log); !text.empty())
      error.note("the driver says: " + text);
  if (result == unsupportedPtxVersion)
    error.fix = "update the NVIDIA driver, or compile for an older target";
  return error;
}

CuResult loadCode(const DriverApi &api, const std::string &code, JitLog &log, CuModule &module) {
  std::array<void *, 4> values = log.values; // The driver writes into it how much it logged.
  return api.cuModuleLoadDataEx(&module, code.c_str(), unsigned(log.options.size()), log.options.data(), values.data());
}

CuResult linkPtx(const DriverApi &api, const std::string &ptx, CubinTarget target, JitLog &log, std::string &cubin) {
  std::vector<int> options(log.options.begin(), log.options.end());
  std::vector<void *> values(log.values.begin(), log.values.end());
  options.push_back(Target);
  values.push_back(asValue(size_t(target.capability + (target.accelerated ? acceleratedBase : 0))));
  CuLinkState state = nullptr;
  CuResult result = api.cuLinkCreate_v2(unsigned(options.size()), options.data(), values.data(), &state);
  if (result != success)
    return result;
  // PTX goes in with the NUL behind it, as ptxas has it.
  result =
      api.cuLinkAddData_v2(state, inputPtx, const_cast<char *>(ptx.c_str()), ptx.size() + 1, "kernel.ptx", 0, nullptr, nullptr);
  void *bytes = nullptr;
  size_t size = 0;
  if (result == success)
    result = api.cuLinkComplete(state, &bytes, &size);
  if (result == success) // The bytes go with the state.
    cubin.assign(static_cast<const char *>(bytes), size);
  api.cuLinkDestroy(state);
  return result;
}

} // namespace minic::cuda
