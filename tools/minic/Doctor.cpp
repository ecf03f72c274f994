// minic doctor: what this build and this machine can do, and one verdict.
#include "Common.h"

#include "minic/CodeGen/CodeGen.h"
#include "minic/Compiler/Ptxas.h"
#include "minic/Runtime/CudaDevice.h"
#include "minic/Target/TargetInfo.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <array>
#include <cstdio>
#include <optional>

namespace minic::cli {
namespace {

/// CUDA releases as cuDriverGetVersion counts them, and the newest PTX that each takes (PTX ISA, "Release Notes"). A release that
/// stands between two takes what the one before it takes.
constexpr std::array<std::pair<int, int>, 20> ptxOfCuda = {{{11000, 70}, {11010, 71}, {11020, 72}, {11030, 73}, {11040, 74},
                                                            {11050, 75}, {11060, 76}, {11070, 77}, {11080, 78}, {12000, 80},
                                                            {12010, 81}, {12020, 82}, {12030, 83}, {12040, 84}, {12050, 85},
                                                            {12070, 86}, {12080, 87}, {12090, 88}, {13000, 90}, {13010, 91}}};

int newestPtxOf(int cuda) {
  int ptx = 0;
  for (auto [release, newest] : ptxOfCuda)
    if (release <= cuda)
      ptx = newest;
  return ptx;
}

/// The first CUDA release that takes this PTX; 0 if none of the table does.
int firstCudaWith(int ptx) {
  for (auto [release, newest] : ptxOfCuda)
    if (newest >= ptx)
      return release;
  return 0;
}

std::string cudaText(int version) { return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10); }
/// "9.0" for 90, of PTX versions and compute capabilities.
std::string tenthsText(int tenths) { return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10); }

struct DeviceReport {
  int ordinal;
  std::string name;
  int computeCapability = 0;
  int64_t memoryBytes = 0;
  const TargetInfo *target = nullptr; ///< Null where minic has none for it.
  std::string fault, fix;             ///< Why it cannot be used; empty if it can.
};

struct Report {
  int newestPtx = 0;
  std::vector<const TargetInfo *> compiled;
  std::string compileFault;
  int driverVersion = 0; ///< 0: no driver.
  std::string kernelModule, driverFault, driverFix;
  std::vector<DeviceReport> devices;
  std::optional<PtxasInfo> ptxas;

  std::string verdict, fix;
  bool canCompile = false, canRunOnGpu = false;
};

/// Compiles one kernel for the target.
Expected<void> tryCompile(const TargetInfo &target) {
  Context context;
  SourceBuffer source("doctor", "graph @add(%x: tensor<Nxf32>, %y: tensor<Nxf32>) -> (z: tensor<Nxf32>) {\n"
                                "  %z = add %x, %y : tensor<Nxf32>\n  return %z\n}\n");
  CompileOptions options{.target = std::string(target.name)};
  auto module = loadModule(context, source, options);
  if (!module)
    return module.takeErrors();
  auto artifact = compile(**module, options);
  return artifact ? Expected<void>() : Expected<void>(artifact.takeErrors());
}

void examineCompiler(Report &report) {
  auto newest = newestPtx();
  if (newest)
    report.newestPtx = *newest;
  else
    report.compileFault = newest.errors().front().message;
  for (const TargetInfo &target : allTargets()) {
    auto done = tryCompile(target);
    if (done)
      report.compiled.push_back(&target);
    else if (report.compileFault.empty())
      report.compileFault = std::string(target.name) + ": " + done.errors().front().message;
  }
}

/// The version of NVIDIA's kernel module, e.g. "570.86.15": the first word of its report that is made of digits and points.
std::string kernelModuleVersion() {
  auto report = readSource("/proc/driver/nvidia/version");
  std::string_view text = report ? report->text() : std::string_view();
  text = text.substr(0, text.find('\n'));
  for (size_t start = 0, end; start < text.size(); start = end + 1) {
    end = std::min(text.find(' ', start), text.size());
    std::string_view word = text.substr(start, end - start);
    if (word.find('.') != word.npos && word.find_first_not_of("0123456789.") == word.npos)
      return std::string(word);
  }
  return {};
}

DeviceReport examineDevice(Client &client, int ordinal) {
  DeviceReport report{.ordinal = ordinal, .name = "device " + std::to_string(ordinal)};
  auto device = client.device(ordinal);
  if (!device) {
    report.fault = device.errors().front().message;
    report.fix = device.errors().front().fix;
    return report;
  }
  const GpuProperties &properties = (*device)->properties();
  report.name = properties.model;
  report.computeCapability = properties.computeCapability;
  report.memoryBytes = properties.memoryBytes;
  report.target = targetForDevice(report.computeCapability / 10, report.computeCapability % 10);
  int takes = newestPtxOf(client.driverVersion());
  if (!report.target) {
    report.fault = report.name + " has compute capability " + tenthsText(report.computeCapability) + ", older than every target";
    report.fix = "use a GPU of compute capability " +
                 tenthsText(allTargets().front().computeMajor * 10 + allTargets().front().computeMinor) + " or later";
  } else if (takes < report.target->minPtx) {
    report.fault = "the driver's CUDA " + cudaText(client.driverVersion()) + " takes PTX up to " + tenthsText(takes) + ", and " +
                   std::string(report.target->name) + " needs " + tenthsText(report.target->minPtx);
    report.fix = "update the NVIDIA driver (CUDA " + cudaText(firstCudaWith(report.target->minPtx)) + " or later)";
  }
  return report;
}

void examineDriver(Report &report) {
  report.kernelModule = kernelModuleVersion();
  auto client = Client::open();
  if (!client) {
    report.driverFault = client.errors().front().message;
    report.driverFix = client.errors().front().fix;
    return;
  }
  report.driverVersion = (*client)->driverVersion();
  for (int ordinal = 0; ordinal < (*client)->deviceCount(); ++ordinal)
    report.devices.push_back(examineDevice(**client, ordinal));
}

void judge(Report &report) {
  report.canCompile = report.compileFault.empty();
  if (!report.canCompile) {
    report.verdict = "cannot compile: " + report.compileFault;
    report.fix = "install minic again";
    return;
  }
  std::string why = report.driverFault, fix = report.driverFix;
  if (report.driverVersion && report.devices.empty()) {
    why = "the CUDA driver finds no device";
    fix = "check CUDA_VISIBLE_DEVICES";
  }
  for (const DeviceReport &device : report.devices) {
    if (device.fault.empty()) {
      report.canRunOnGpu = true;
      report.verdict = "ready to compile and run on " + device.name + " (" + std::string(device.target->name) + ")";
      return;
    }
    if (why.empty())
      why = device.fault, fix = device.fix;
  }
  report.verdict =
      "compiles for all targets; runs on the interpreter only, since " + std::string(why.starts_with("cannot") ? "it " : "") + why;
  report.fix = fix;
}

std::string ptxasText(const PtxasInfo &ptxas) {
  std::string text = ptxas.path;
  if (ptxas.cuda)
    text += ", CUDA " + cudaText(ptxas.cuda) + ", takes PTX up to " + tenthsText(newestPtxOf(ptxas.cuda));
  std::string unknown;
  for (const TargetInfo &target : allTargets())
    if (std::find(ptxas.targets.begin(), ptxas.targets.end(), target.name) == ptxas.targets.end())
      unknown += (unknown.empty() ? ", but not " : ", ") + std::string(target.name);
  return text + unknown;
}

std::string text(const Report &report) {
  std::string out = "minic:     " MINIC_VERSION ", LLVM " + llvmVersion() + ", PTX up to " + tenthsText(report.newestPtx) + "\n";
  out += "targets:  ";
  for (const TargetInfo *target : report.compiled)
    out +=
        (target == report.compiled.front() ? " " : ", ") + std::string(target->name) + " (PTX " + tenthsText(target->minPtx) + ")";
  out += "\nptxas:     " + (report.ptxas ? ptxasText(*report.ptxas) : "none; needed for --emit=cubin only");
  out += "\ndriver:    ";
  out += report.driverVersion
             ? "CUDA " + cudaText(report.driverVersion) + ", takes PTX up to " + tenthsText(newestPtxOf(report.driverVersion))
             : "none: " + report.driverFault;
  if (!report.kernelModule.empty())
    out += "; kernel module " + report.kernelModule;
  for (const DeviceReport &device : report.devices) {
    out += "\ndevice " + std::to_string(device.ordinal) + ":  " + device.name;
    if (device.computeCapability) {
      char memory[32];
      std::snprintf(memory, sizeof memory, "%.1f GiB", double(device.memoryBytes) / double(1 << 30));
      out += ", compute capability " + tenthsText(device.computeCapability) + ", " + memory + ", target " +
             (device.target ? std::string(device.target->name) : "none");
    }
    if (!device.fault.empty())
      out += ": " + device.fault;
  }
  return out + "\nverdict:   " + report.verdict + (report.fix.empty() ? "" : "; fix: " + report.fix) + "\n";
}

nlohmann::json toJson(const Report &report) {
  auto orNull = [](const std::string &text) { return text.empty() ? nlohmann::json() : nlohmann::json(text); };
  nlohmann::json targets = nlohmann::json::array(), devices = nlohmann::json::array(), ptxas, driver;
  for (const TargetInfo *target : report.compiled)
    targets.push_back({{"name", target->name}, {"ptx", tenthsText(target->minPtx)}});
  for (const DeviceReport &device : report.devices)
    devices.push_back({{"ordinal", device.ordinal},
                       {"name", device.name},
                       {"compute_capability", tenthsText(device.computeCapability)},
                       {"memory_bytes", device.memoryBytes},
                       {"target", device.target ? nlohmann::json(device.target->name) : nlohmann::json()},
                       {"fault", orNull(device.fault)}});
  if (report.ptxas)
    ptxas = {{"path", report.ptxas->path},
             {"cuda", cudaText(report.ptxas->cuda)},
             {"newest_ptx", tenthsText(newestPtxOf(report.ptxas->cuda))},
             {"targets", report.ptxas->targets}};
  if (report.driverVersion)
    driver = {{"cuda", cudaText(report.driverVersion)},
              {"newest_ptx", tenthsText(newestPtxOf(report.driverVersion))},
              {"kernel_module", orNull(report.kernelModule)}};
  return {{"minic", MINIC_VERSION},
          {"llvm", llvmVersion()},
          {"newest_ptx", tenthsText(report.newestPtx)},
          {"targets", targets},
          {"ptxas", ptxas},
          {"driver", driver},
          {"devices", devices},
          {"can_compile", report.canCompile},
          {"can_run_on_gpu", report.canRunOnGpu},
          {"verdict", report.verdict},
          {"fix", orNull(report.fix)}};
}

int doctor(bool json, bool requireGpu) {
  Report report;
  examineCompiler(report);
  examineDriver(report);
  if (auto ptxas = describePtxas())
    report.ptxas = std::move(*ptxas);
  judge(report);
  auto written =
      writeOutput({}, json ? toJson(report).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n" : text(report));
  if (!written)
    return Messages(json).fail(written.errors());
  return report.canCompile && (report.canRunOnGpu || !requireGpu) ? Fine : BadEnvironment;
}

} // namespace

void addDoctor(CLI::App &app, Action &chosen) {
  struct Flags {
    bool json = false, requireGpu = false;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App *command = app.add_subcommand("doctor", "Say what this build and this machine can do");
  command->add_flag("--require-gpu", flags->requireGpu, "exit code 3 if no GPU can be used");
  command->add_flag("--json", flags->json, "print one JSON object");
  command->callback([flags, &chosen] { chosen = [flags] { return doctor(flags->json, flags->requireGpu); }; });
}

} // namespace minic::cli
