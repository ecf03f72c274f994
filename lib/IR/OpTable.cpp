#include "OpVerify.h"
#include "minic/IR/IR.h"

#include <unordered_map>

namespace minic {

static const std::vector<OpInfo> &table() {
  static const std::vector<OpInfo> rows = {
#define MINIC_SCALAR(id, spelling, hostFloat, hostInt, llvmFloat, llvmInt, ...)                                                    \
  OpInfo{.kind = OpKind::id, .name = spelling, __VA_ARGS__},
#define MINIC_MATH(id, spelling, ...) OpInfo{.kind = OpKind::id, .name = spelling, __VA_ARGS__},
#define MINIC_OP(id, spelling, ...) OpInfo{.kind = OpKind::id, .name = spelling, __VA_ARGS__},
#include "minic/IR/GraphOps.def"
#include "minic/IR/MachineOps.def"
#include "minic/IR/ScalarOps.def"
#include "minic/IR/TileOps.def"
#undef MINIC_SCALAR
#undef MINIC_MATH
#undef MINIC_OP
  };
  return rows;
}

const OpInfo &opInfo(OpKind kind) { return table()[size_t(kind)]; }
std::span<const OpInfo> allOps() { return table(); }

std::optional<OpKind> findOp(std::string_view name) {
  static const auto byName = [] {
    std::unordered_map<std::string_view, OpKind> names;
    for (const OpInfo &info : table())
      names.emplace(info.name, info.kind);
    return names;
  }();
  auto it = byName.find(name);
  return it == byName.end() ? std::nullopt : std::optional(it->second);
}

} // namespace minic
