// minic explain: which ops share a kernel and what keeps others apart, schedules, masks and padding, each with its reason.
#include "Common.h"
#include "ExplainError.h"
#include "Where.h"

#include "minic/Driver/Explanation.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <sstream>

namespace minic::cli {
namespace {

std::string placeText(SourceLoc loc) { return std::to_string(loc.line) + ":" + std::to_string(loc.column); }

/// "33554432 bytes", or "4*M*N bytes" of sizes that are names.
std::string bytesText(const DimExpr &bytes) { return bytes.str() + " bytes"; }

//===- Text -===//

/// What goes through memory because of an edge, or stays on chip: a write and a read.
std::string trafficText(const FusionEdge &edge) {
  DimExpr both = edge.bytes * DimExpr(2);
  if (edge.reason)
    return bytesText(both) + " go through memory";
  return edge.isStored ? bytesText(edge.bytes) + " need not be read again" : bytesText(both) + " stay out of memory";
}

void printEdge(std::ostream &out, const FusionEdge &edge) {
  out << "  " << edge.from << " -> " << edge.to << " (" << placeText(edge.toLoc) << "): ";
  if (!edge.reason) {
    out << "one kernel; " << trafficText(edge) << "\n";
    return;
  }
  const FusionReasonInfo &info = fusionReasonInfo(*edge.reason);
  out << "two kernels [" << info.code << "]; " << trafficText(edge) << "\n    " << info.why
      << (edge.detail.empty() ? "" : " (" + edge.detail + ")") << "\n";
  if (edge.resources)
    out << "    as one it would have about " << edge.resources->registers << " registers a thread and "
        << edge.resources->sharedBytes << " bytes of shared memory\n";
  if (!info.change.empty())
    out << "    to change it: " << info.change << "\n";
}

void printRegion(std::ostream &out, const RegionChoice &choice) {
  out << choice.name;
  if (choice.product)
    out << ", matmul at " << placeText(choice.product->loc) << (choice.product->isLibrary ? ": cuBLASLt" : ": generated");
  if (!choice.product || !choice.product->isLibrary)
    out << (choice.product ? ", " : ": ") << choice.schedule;
  out << "\n";
  if (choice.product)
    out << "  " << choice.product->why << "\n";
  out << "  schedule " << choice.origin << "\n  about " << choice.resources.registers << " registers a thread, "
      << choice.resources.sharedBytes << " bytes of shared memory, " << choice.resources.parameterBytes << " of parameters\n";
  for (const ConsideredTile &tile : choice.considered) {
    out << "  considered " << tile.text << ": ";
    if (tile.cycles)
      out << std::to_string(int64_t(*tile.cycles)) << " cycles" << (tile.why.empty() ? "" : ", but ");
    out << tile.why << "\n";
  }
}

std::string text(const Explanation &found) {
  std::ostringstream out;
  out << (found.regions.empty() ? "no fusion regions\n" : "");
  for (const RegionChoice &choice : found.regions)
    printRegion(out, choice);
  for (const CustomUse &use : found.customs) {
    out << "@" << use.op << " at " << placeText(use.loc) << ": kernel @" << use.kernel;
    if (!use.ptxTarget.empty())
      out << ", PTX for " << use.ptxTarget << "\n  the interpreter (CPU) does not run PTX, and evaluates the op's body instead";
    out << "\n";
  }
  if (!found.fusion.edges.empty())
    out << "\nedges\n";
  for (const FusionEdge &edge : found.fusion.edges)
    printEdge(out, edge);
  if (!found.accesses.empty())
    out << "\naccesses\n";
  for (const AccessFact &access : found.accesses)
    out << "  " << access.what << " (" << placeText(access.loc) << ") in @" << access.kernel << ", axis " << access.axis << ": "
        << (access.isMasked ? "masked" : "proved in bounds") << ": " << access.why
        << (access.fill.empty() ? "" : "; lanes behind it hold " + access.fill) << "\n";
  if (!found.paddings.empty())
    out << "\npadding\n";
  for (const PaddingProof &padding : found.paddings)
    out << "  " << padding.what << " (" << placeText(padding.loc) << ") in @" << padding.kernel << ", axis " << padding.axis << ": "
        << padding.padding << " (identity " << padding.identity << ")" << (padding.proof.empty() ? "" : ": " + padding.proof)
        << "\n";
  return out.str();
}

//===- JSON -===//

nlohmann::json placeJson(SourceLoc loc) { return {{"line", loc.line}, {"column", loc.column}}; }

nlohmann::json edgeJson(const FusionEdge &edge) {
  nlohmann::json json = {
      {"from", edge.from},         {"to", edge.to},          {"location", placeJson(edge.toLoc)}, {"fused", !edge.reason},
      {"bytes", edge.bytes.str()}, {"stored", edge.isStored}};
  if (edge.resources)
    json["resources"] = {{"registers", edge.resources->registers}, {"shared_bytes", edge.resources->sharedBytes}};
  if (edge.reason) {
    const FusionReasonInfo &info = fusionReasonInfo(*edge.reason);
    json["reason"] = {{"code", info.code}, {"why", info.why}, {"detail", edge.detail}, {"change", info.change}};
  }
  return json;
}

nlohmann::json regionJson(const RegionChoice &choice) {
  nlohmann::json considered = nlohmann::json::array();
  for (const ConsideredTile &tile : choice.considered)
    considered.push_back(
        {{"tile", tile.text}, {"cycles", tile.cycles ? nlohmann::json(*tile.cycles) : nullptr}, {"why", tile.why}});
  return {{"name", choice.name},
          {"schedule", choice.schedule},
          {"origin", choice.origin},
          {"registers", choice.resources.registers},
          {"shared_bytes", choice.resources.sharedBytes},
          {"considered", std::move(considered)}};
}

nlohmann::json json(const Explanation &found) {
  auto list = [](const auto &items, auto toJson) {
    nlohmann::json result = nlohmann::json::array();
    for (const auto &item : items)
      result.push_back(toJson(item));
    return result;
  };
  nlohmann::json products = nlohmann::json::array();
  for (const RegionChoice &choice : found.regions)
    if (choice.product)
      products.push_back({{"name", choice.name},
                          {"location", placeJson(choice.product->loc)},
                          {"matmul", choice.product->isLibrary ? "cublaslt" : "generated"},
                          {"schedule", choice.schedule},
                          {"why", choice.product->why}});
  return {{"regions", list(found.regions, regionJson)},
          {"products", std::move(products)},
          {"customs",
           list(found.customs,
                [](const CustomUse &use) -> nlohmann::json {
                  return {{"name", use.op}, {"location", placeJson(use.loc)}, {"kernel", use.kernel}, {"ptx", use.ptxTarget}};
                })},
          {"edges", list(found.fusion.edges, edgeJson)},
          {"accesses", list(found.accesses,
                            [](const AccessFact &access) -> nlohmann::json {
                              return {{"kernel", access.kernel}, {"access", access.what},     {"location", placeJson(access.loc)},
                                      {"axis", access.axis},     {"masked", access.isMasked}, {"why", access.why},
                                      {"fill", access.fill}};
                            })},
          {"padding", list(found.paddings, [](const PaddingProof &padding) -> nlohmann::json {
             return {{"kernel", padding.kernel}, {"op", padding.what},         {"location", placeJson(padding.loc)},
                     {"axis", padding.axis},     {"padding", padding.padding}, {"identity", padding.identity},
                     {"proof", padding.proof}};
           })}};
}

//===- Expectations -===//

/// Which values are made in one kernel: sets of ops that edges join.
class Kernels {
public:
  explicit Kernels(const FusionReport &report) {
    for (const FusionEdge &edge : report.edges) {
      ops[edge.from] = edge.fromOp;
      ops[edge.to] = edge.toOp;
      int from = find(edge.fromOp), to = find(edge.toOp);
      if (!edge.reason)
        parents[from] = to;
    }
  }
  bool knows(const std::string &name) const { return name.starts_with('%') && ops.contains(name); }
  int kernelOf(const std::string &name) { return find(ops.at(name)); }

private:
  int find(int op) {
    int &parent = parents.try_emplace(op, op).first->second;
    return parent == op ? op : parent = find(parent);
  }

  std::map<std::string, int> ops;
  std::map<int, int> parents;
};

/// `// EXPECT-FUSED: %a, %z` and `// EXPECT-APART: %a, %z` of a file, checked.
Diagnostics unmetExpectations(const SourceBuffer &source, const FusionReport &report) {
  Kernels kernels(report);
  Diagnostics errors;
  std::istringstream lines{std::string(source.text())};
  std::string line;
  for (uint32_t number = 1; std::getline(lines, line); ++number)
    for (bool fused : {true, false}) {
      std::string_view key = fused ? "// EXPECT-FUSED:" : "// EXPECT-APART:";
      size_t at = line.find(key);
      if (at == std::string::npos)
        continue;
      SourceLoc loc{number, uint32_t(at + 1)};
      std::vector<std::string> names;
      std::istringstream words(line.substr(at + key.size()));
      for (std::string word; std::getline(words, word, ',');) {
        word.erase(0, word.find_first_not_of(" \t"));
        word.erase(word.find_last_not_of(" \t\r") + 1);
        names.push_back(word);
      }
      if (names.size() < 2)
        errors.push_back({.code = ErrorCode::BadExpectation, .message = "expected two values or more", .loc = loc});
      for (const std::string &name : names)
        if (!kernels.knows(name))
          errors.push_back({.code = ErrorCode::BadExpectation,
                            .message = "no op that has edges makes '" + name + "'",
                            .loc = loc,
                            .fix = "name results of ops that compute; constants, broadcasts and views are part of their readers"});
      if (!errors.empty() && errors.back().loc.line == number)
        continue;
      for (size_t i = 1; i < names.size(); ++i)
        if ((kernels.kernelOf(names[0]) == kernels.kernelOf(names[i])) != fused) {
          auto edge =
              std::ranges::find_if(report.edges, [&](const FusionEdge &edge) { return edge.reason && edge.to == names[i]; });
          std::string why = fused && edge != report.edges.end()
                                ? ": " + edge->from + " -> " + edge->to + ": " + std::string(fusionReasonInfo(*edge->reason).why)
                                : "";
          errors.push_back({.code = ErrorCode::BadExpectation,
                            .message = names[0] + " and " + names[i] + (fused ? " are in two kernels" : " are in one kernel") + why,
                            .loc = loc});
        }
    }
  return errors;
}

int explain(const ModuleFlags &flags, bool check) {
  if (auto done = explainError(flags.file, flags.json))
    return *done;
  Messages messages(flags.json);
  BegunModule begun;
  if (auto failed = beginWithModule(flags, messages, begun))
    return *failed;
  auto found = minic::explain(*begun.module, begun.options);
  if (!found)
    return messages.fail(found.errors(), &begun.source);
  noteUnusedSchedules(begun.options, messages);
  if (auto written = writeOutput({}, flags.json ? json(*found).dump() + "\n" : text(*found)); !written)
    return messages.fail(written.errors());
  if (check)
    if (Diagnostics unmet = unmetExpectations(begun.source, found->fusion); !unmet.empty())
      return messages.fail(unmet, &begun.source);
  return Fine;
}

} // namespace

void addExplain(CLI::App &app, Action &chosen) {
  auto flags = std::make_shared<ModuleFlags>();
  auto check = std::make_shared<bool>(false);
  auto where = std::make_shared<std::string>();
  CLI::App *command = app.add_subcommand("explain", "Say which ops of a graph share a kernel and what keeps others apart, what "
                                                    "schedules, masks and padding are, and why; or what an error code means");
  addModuleFlags(*command, *flags, WithGraph | WithMode | WithJson | WithSchedules | WithLineInfo);
  command->add_flag("--check", *check,
                    "fail where a line `// EXPECT-FUSED: %a, %z` or `// EXPECT-APART: %a, %z` of the file does not hold");
  command->add_option("--where", *where,
                      "LEVEL:LINE, such as ptx:57: say which op a line is from of what `minic compile --emit=LEVEL` prints, and "
                      "which lines of the other levels are from that op; LEVEL is one of graph to ptx");
  command->callback([flags, check, where, &chosen] {
    chosen = [flags, check, where] { return where->empty() ? explain(*flags, *check) : explainWhere(*where, *flags); };
  });
}

} // namespace minic::cli
