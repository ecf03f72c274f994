// cse: merges equal pure operations, and loads with no store between them.
//
//   %a = add %x, %y; %b = add %x, %y; %c = mul %a, %b   ->   %a = add %x, %y; %c = mul %a, %a
//
// A value of an outer block serves inside its regions. Operations with regions, other than reductions, are left alone.
#include "minic/Transforms/Analysis/StructuralKey.h"
#include "minic/Transforms/Passes.h"

#include <unordered_map>

namespace minic {
namespace {

class Cse {
public:
  void run(Block &block) {
    size_t mark = undo.size();
    for (Operation &op : block) {
      for (unsigned r = 0; r < op.numRegions(); ++r)
        if (!op.is(OpKind::Reduce)) {
          // A store late in a loop comes before the loads of the next trip.
          if (writes(op.region(r)))
            ++stores;
          run(op.region(r));
        }
      if (op.info().effects & (Writes | Barrier))
        ++stores; // Loads before and after it are not the same.
      if (!isMergeable(op))
        continue;
      std::string key = keyOf(op);
      auto [it, inserted] = table.emplace(key, &op);
      if (inserted) {
        undo.push_back(key);
        continue;
      }
      for (unsigned i = 0; i < op.numResults(); ++i)
        op.result(i)->replaceAllUsesWith(it->second->result(i));
      op.erase();
    }
    while (undo.size() > mark) {
      table.erase(undo.back());
      undo.pop_back();
    }
  }

private:
  static bool writes(Block &block) {
    bool found = false;
    walk(block, [&](Operation &op) { found |= (op.info().effects & (Writes | Barrier)) != 0; });
    return found;
  }

  static bool isMergeable(const Operation &op) {
    const OpInfo &info = op.info();
    return !info.terminator && op.numResults() > 0 && !(info.effects & (Writes | Barrier | Convergent | Fresh)) &&
           (op.numRegions() == 0 || op.is(OpKind::Reduce));
  }

  /// Names values by the order in which they were met: no addresses, so the same in every process.
  int number(const Value *value) { return numbers.emplace(value, int(numbers.size())).first->second; }

  std::string keyOf(const Operation &op) {
    std::string key(op.info().name);
    std::vector<int> operands;
    for (Value *operand : op.operands())
      operands.push_back(number(operand));
    if (op.info().commutative && operands.size() == 2 && operands[0] > operands[1])
      std::swap(operands[0], operands[1]);
    for (int operand : operands)
      key += " " + std::to_string(operand);
    for (const NamedAttribute &attribute : op.attrs())
      key += "," + attribute.name + "=" + attribute.value.str();
    for (Value *result : op.results())
      key += ":" + result->type().str();
    if (op.info().effects & Reads)
      key += "@" + std::to_string(stores);
    if (op.numRegions())
      key += structuralKey(op.region(), {.outside = [&](const Value *value) { return std::to_string(number(value)); }});
    return key;
  }

  std::unordered_map<std::string, Operation *> table;
  std::vector<std::string> undo;
  std::unordered_map<const Value *, int> numbers;
  int stores = 0;
};

} // namespace

Expected<void> passes::cse(Function &function, PassContext &) {
  Cse().run(function.body());
  return {};
}

} // namespace minic
