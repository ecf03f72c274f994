#include "DriverCode.h"

#include "minic/Support/PtxLines.h"

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
  GenerateLineInfo = 13,
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

/// The options of one call. The driver writes into the log's values how much it logged, so each call has its own.
struct JitOptions {
  std::vector<int> names;
  std::vector<void *> values;

  JitOptions(const JitLog &log, const std::string &code)
      : names(log.options.begin(), log.options.end()), values(log.values.begin(), log.values.end()) {
    if (hasLineInfo(code)) // Kept, for profilers and compute-sanitizer.
      add(GenerateLineInfo, 1);
  }
  void add(JitOption name, size_t value) {
    names.push_back(name);
    values.push_back(asValue(value));
  }
  unsigned size() const { return unsigned(names.size()); }
};

} // namespace

JitLog::JitLog()
    : options{InfoLogBuffer, InfoLogBufferSize, ErrorLogBuffer, ErrorLogBufferSize}, info(logSize, '\0'), errors(logSize, '\0') {
  values = {info.data(), asValue(logSize - 1), errors.data(), asValue(logSize - 1)};
}

/// Where the line of the PTX is from that the driver refuses, if it says a line.
static void addOrigin(Diagnostic &error, const KernelCode &kernel, const std::string &log) {
  auto place = ptxErrorPlace(kernel.ptx, log);
  if (!place)
    return;
  std::string from = "line " + std::to_string(place->line) + " of the PTX: " + place->text;
  if (SourceLoc loc = place->from.loc; loc.isValid()) {
    std::string at = std::to_string(loc.line) + ":" + std::to_string(loc.column);
    from += "\nit is from " + place->from.file + ":" + at;
    for (const std::string &op : kernel.ops) // "matmul at 4:8"
      if (op.ends_with(" at " + at))
        from += " (" + op.substr(0, op.find(' ')) + ")";
  } else if (!hasLineInfo(kernel.ptx) && kernel.entry.empty()) {
    error.fix = "compile with --line-info (`lineInfo`), and this says which line of the graph it is";
  }
  error.note(from);
}

Diagnostic JitLog::error(const DriverApi &api, CuResult result, const KernelCode &kernel, const std::string &what) const {
  Diagnostic error = api.error(result, what);
  for (const std::vector<char> *log : {&errors, &info})
    if (std::string text = logText(*log); !text.empty()) {
      error.note("the driver says: " + text);
      addOrigin(error, kernel, text);
    }
  if (result == unsupportedPtxVersion)
    error.fix = "update the NVIDIA driver, or compile for an older target";
  return error;
}

CuResult loadCode(const DriverApi &api, const std::string &code, JitLog &log, CuModule &module) {
  JitOptions options(log, code);
  return api.cuModuleLoadDataEx(&module, code.c_str(), options.size(), options.names.data(), options.values.data());
}

CuResult linkPtx(const DriverApi &api, const std::string &ptx, CubinTarget target, JitLog &log, std::string &cubin) {
  JitOptions options(log, ptx);
  options.add(Target, size_t(target.capability + (target.accelerated ? acceleratedBase : 0)));
  CuLinkState state = nullptr;
  CuResult result = api.cuLinkCreate_v2(options.size(), options.names.data(), options.values.data(), &state);
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
