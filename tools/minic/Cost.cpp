// minic cost: the bytes that a graph must move, eager and fused, what its kernels compute, and how quick that can be at most.
#include "Difference.h"
#include "Model.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cstdio>

namespace minic::cli {
namespace {

nlohmann::json toJson(const TrafficModel &model) {
  nlohmann::json ops = nlohmann::json::array();
  for (const OpTraffic &op : model.ops)
    ops.push_back({{"name", op.name}, {"bytes", op.bytes}});
  return {{"bytes", model.bytes}, {"launches", model.launches}, {"ops", ops}};
}

nlohmann::json limitsJson(const Model &model) {
  nlohmann::json launches = nlohmann::json::array();
  double us = 0;
  for (const OpTraffic &launch : model.fused.ops) {
    LaunchLimit limit = limitOf(launch, *model.rates);
    us += limit.us();
    launches.push_back({{"name", launch.name},
                        {"location", {{"line", launch.loc.line}, {"column", launch.loc.column}}},
                        {"bytes", launch.bytes},
                        {"flops", launch.flops()},
                        {"flops_per_byte", limit.intensity},
                        {"memory_us", limit.memoryUs},
                        {"compute_us", limit.computeUs},
                        {"us", limit.us()},
                        {"bound", boundName(limit.bound)},
                        {"why", limit.why}});
  }
  return {{"target", model.rates->target},
          {"product", model.rates->product},
          {"memory_gbps", model.rates->memoryGBps},
          {"f32_tflops", model.rates->fmaTflopsOfF32},
          {"us", us},
          {"launches", std::move(launches)}};
}

/// How quick each launch can be, and what keeps it from being quicker.
std::string limitsText(const Model &model) {
  const PeakRates &rates = *model.rates;
  std::string out = "\nat the limits of " + std::string(rates.target) + " (" + std::string(rates.product) + ": " +
                    number(rates.memoryGBps) + " GB/s, " + number(rates.fmaTflopsOfF32) + " TFLOP/s in f32), by launch:\n";
  char line[160];
  std::snprintf(line, sizeof line, "  %10s %16s %10s  %-8s\n", "us", "FLOP", "FLOP/B", "bound by");
  out += line;
  double us = 0;
  for (const OpTraffic &launch : model.fused.ops) {
    LaunchLimit limit = limitOf(launch, rates);
    us += limit.us();
    std::snprintf(line, sizeof line, "  %10s %16lld %10s  %-8s  ", number(limit.us()).c_str(), (long long)launch.flops(),
                  number(limit.intensity).c_str(), std::string(boundName(limit.bound)).c_str());
    out += line + launch.name + ": " + limit.why + "\n";
  }
  return out + "  " + number(us) + " us in all\n";
}

/// What an input costs whose elements lie apart, and what the compiler does about it.
std::string stridedText(const std::vector<std::pair<std::string, StridedReads>> &inputs) {
  std::string out = inputs.empty() ? "" : "\ninputs with strides of their own, bytes at worst:\n";
  for (const auto &[name, reads] : inputs) {
    auto bytes = [](double count) { return std::to_string(int64_t(count)) + " B"; };
    out += "  " + name + ": " +
           (reads.needsCopy     ? "copied first, " + bytes(reads.copied) + ": not only kernels use it"
            : reads.copyFirst() ? "copied first, " + bytes(reads.copied) + "; read in place " + bytes(reads.inPlace)
                                : "read in place, " + bytes(reads.inPlace) + "; copied first " + bytes(reads.copied)) +
           "\n";
  }
  return out;
}

nlohmann::json toJson(const std::vector<std::pair<std::string, StridedReads>> &inputs) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto &[name, reads] : inputs) {
    list.push_back({{"name", name}, {"copied", int64_t(reads.copied)}, {"copy_first", reads.copyFirst()}});
    if (!reads.needsCopy)
      list.back()["in_place"] = int64_t(reads.inPlace);
  }
  return list;
}

std::string text(const TrafficModel &eager, const TrafficModel &fused, double ratio) {
  char line[64];
  std::snprintf(line, sizeof line, "ratio: %.3f\n", ratio);
  std::string out = "eager: " + std::to_string(eager.bytes) + " B, " + plural(eager.launches, "launch") + "\n" +
                    "fused: " + std::to_string(fused.bytes) + " B, " + plural(fused.launches, "launch") + "\n" + line;
  size_t width = 0;
  for (const TrafficModel *model : {&eager, &fused})
    for (const OpTraffic &op : model->ops)
      width = std::max(width, std::to_string(op.bytes).size());
  for (const auto &[title, model] : {std::pair("eager", &eager), std::pair("fused", &fused)}) {
    out += "\n" + std::string(title) + ", by launch:\n";
    for (const OpTraffic &op : model->ops) {
      std::string bytes = std::to_string(op.bytes);
      out += "  " + std::string(width - bytes.size(), ' ') + bytes + " B  " + op.name + "\n";
    }
  }
  return out;
}

int cost(const ModuleFlags &flags) {
  Messages messages(flags.json);
  BegunGraph begun;
  if (auto failed = beginWithGraph(flags, messages, begun))
    return *failed;
  const DimBindings &dims = begun.options.dims;
  if (auto bound = requireDims(begun.graph->dimNames(), dims, "minic cost " + flags.file); !bound)
    return messages.fail(bound.errors());

  auto model = modelGraph(begun.source, begun.options, begun.graph->name, dims);
  if (!model)
    return messages.fail(model.errors(), &begun.source);

  double ratio = model->fused.bytes ? double(model->eager.bytes) / double(model->fused.bytes) : 1;
  std::string out;
  if (flags.json)
    out = nlohmann::json{{"graph", begun.graph->name},    {"eager", toJson(model->eager)},
                         {"fused", toJson(model->fused)}, {"ratio", ratio},
                         {"limits", limitsJson(*model)},  {"strided_inputs", toJson(model->strided)}}
              .dump() +
          "\n";
  else
    out = text(model->eager, model->fused, ratio) + limitsText(*model) + stridedText(model->strided);
  if (auto written = writeOutput({}, out); !written)
    return messages.fail(written.errors());
  return Fine;
}

} // namespace

void addCost(CLI::App &app, Action &chosen) {
  auto flags = std::make_shared<ModuleFlags>();
  CLI::App *command =
      app.add_subcommand("cost", "Count the bytes that a graph must move, eager and fused, what its kernels compute, "
                                 "how quick they can be at most, and what bounds them");
  addModuleFlags(*command, *flags, WithGraph | WithJson);
  command->callback([flags, &chosen] { chosen = [flags] { return cost(*flags); }; });
}

} // namespace minic::cli
