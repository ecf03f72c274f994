#include "Lanes.h"

#include <algorithm>

namespace minic::interp {

void fillElements(std::byte *to, const std::byte *value, int64_t bytes, int64_t count) {
  if (count <= 0)
    return;
  if (bytes == 1) {
    std::memset(to, int(*value), size_t(count));
    return;
  }
  // Doubling copies: the filled prefix is the source of the next one.
  std::memcpy(to, value, size_t(bytes));
  for (int64_t done = 1; done < count;) {
    int64_t n = std::min(done, count - done);
    std::memcpy(to + done * bytes, to, size_t(n * bytes));
    done += n;
  }
}

LaneArray LaneArray::expanded(int64_t count) const {
  if (size == count)
    return *this;
  LaneArray result = make(dtype, count);
  if (!result.data)
    return result;
  fillElements(result.data.get(), data.get(), dtypeBytes(dtype), count);
  if (state && !result.makeState(LaneState(state[0])))
    result.data = nullptr;
  return result;
}

std::vector<Scalar> constantElements(const Attribute &attr, DType dtype) {
  std::vector<Scalar> elements;
  std::vector<std::pair<const AttributeList *, size_t>> pending; // Lists that are being read, and how far.
  if (const AttributeList *list = attr.asList())
    pending.emplace_back(list, 0);
  else
    elements.push_back(Scalar::of(attr, dtype));
  while (!pending.empty()) {
    auto &[list, next] = pending.back();
    if (next == list->size()) {
      pending.pop_back();
      continue;
    }
    const Attribute &element = (*list)[next++];
    if (const AttributeList *inner = element.asList())
      pending.emplace_back(inner, 0);
    else
      elements.push_back(Scalar::of(element, dtype));
  }
  return elements;
}

} // namespace minic::interp
