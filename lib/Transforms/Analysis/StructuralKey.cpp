#include "minic/Transforms/Analysis/StructuralKey.h"

#include <unordered_map>

namespace minic {
namespace {

class KeyWriter {
public:
  explicit KeyWriter(const KeyTexts &texts) : texts(texts) {}

  void write(const Block &block) {
    key += '{';
    for (const Value *argument : block.arguments())
      define(argument);
    for (const Operation &op : block) {
      key += ';';
      key += op.info().name;
      for (const Value *operand : op.operands()) {
        auto it = local.find(operand);
        key += it != local.end() ? " %" + std::to_string(it->second) : " " + texts.outside(operand);
      }
      for (const NamedAttribute &attribute : op.attrs())
        if (attribute.name != texts.withoutAttribute)
          key += "," + attribute.name + "=" + attribute.value.str();
      for (unsigned r = 0; r < op.numRegions(); ++r)
        write(op.region(r));
      for (const Value *result : op.results())
        define(result);
    }
    key += '}';
  }

  std::string key;

private:
  void define(const Value *value) {
    key += ":" + texts.type(value->type());
    local.emplace(value, int(local.size()));
  }

  const KeyTexts &texts;
  std::unordered_map<const Value *, int> local;
};

} // namespace

std::string structuralKey(const Block &block, const KeyTexts &texts) {
  KeyWriter writer(texts);
  writer.write(block);
  return std::move(writer.key);
}

} // namespace minic
