// minic cost: the bytes that a graph must move, eager and fused.
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
  BegunModule begun;
  if (auto failed = beginWithModule(flags, messages, begun))
    return *failed;
  auto graph = chooseGraph(*begun.module, flags.graph);
  if (!graph)
    return messages.fail(graph.errors(), &begun.source);
  const DimBindings &dims = begun.options.dims;
  if (auto bound = requireDims((*graph)->dimNames(), dims, "minic cost " + flags.file); !bound)
    return messages.fail(bound.errors());

  auto model = modelGraph(begun.source, begun.options, (*graph)->name, dims);
  if (!model)
    return messages.fail(model.errors(), &begun.source);

  double ratio = model->fused.bytes ? double(model->eager.bytes) / double(model->fused.bytes) : 1;
  std::string out;
  if (flags.json)
    out = nlohmann::json{{"graph", (*graph)->name},
                         {"eager", toJson(model->eager)},
                         {"fused", toJson(model->fused)},
                         {"ratio", ratio},
                         {"strided_inputs", toJson(model->strided)}}
              .dump() +
          "\n";
  else
    out = text(model->eager, model->fused, ratio) + stridedText(model->strided);
  if (auto written = writeOutput({}, out); !written)
    return messages.fail(written.errors());
  return Fine;
}

} // namespace

void addCost(CLI::App &app, Action &chosen) {
  auto flags = std::make_shared<ModuleFlags>();
  CLI::App *command = app.add_subcommand("cost", "Count the bytes that a graph must move, eager and fused");
  addModuleFlags(*command, *flags, WithGraph | WithJson);
  command->callback([flags, &chosen] { chosen = [flags] { return cost(*flags); }; });
}

} // namespace minic::cli
