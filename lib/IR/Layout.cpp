#include "minic/IR/Layout.h"

#include <algorithm>

namespace minic {

static int64_t product(const std::vector<Mode> &modes) {
  int64_t n = 1;
  for (const Mode &mode : modes)
    n *= mode.extent;
  return n;
}

int64_t Layout::numRegs() const { return product(reg); }
int64_t Layout::numLanes() const { return product(lane); }
int64_t Layout::numWarps() const { return product(warp); }

static void addDigits(const std::vector<Mode> &modes, int64_t position, std::span<int64_t> index) {
  for (const Mode &mode : modes) {
    int64_t digit = position % mode.extent;
    position /= mode.extent;
    if (mode.axis >= 0)
      index[size_t(mode.axis)] += digit * mode.stride;
  }
}

void Layout::addRegister(int64_t r, std::span<int64_t> index) const { addDigits(reg, r, index); }

void Layout::addThread(int64_t l, int64_t w, std::span<int64_t> index) const {
  addDigits(lane, l, index);
  addDigits(warp, w, index);
}

static std::string modesText(const std::vector<Mode> &modes) {
  std::string text = "[";
  for (const Mode &mode : modes) {
    if (text.size() > 1)
      text += ", ";
    if (mode.axis < 0)
      text += "_:" + std::to_string(mode.extent);
    else
      text += std::to_string(mode.axis) + ":" + std::to_string(mode.extent) + "@" + std::to_string(mode.stride);
  }
  return text + "]";
}

std::string Layout::str() const {
  return "reg = " + modesText(reg) + ", lane = " + modesText(lane) + ", warp = " + modesText(warp);
}

static std::vector<Mode> normalizedModes(const std::vector<Mode> &modes) {
  std::vector<Mode> result;
  for (const Mode &mode : modes) {
    if (mode.extent == 1)
      continue;
    if (mode.axis < 0 && !result.empty() && result.back().axis < 0)
      result.back().extent *= mode.extent;
    else
      result.push_back(mode.axis < 0 ? Mode{-1, mode.extent, 0} : mode);
  }
  return result;
}

Layout Layout::normalized() const { return {normalizedModes(reg), normalizedModes(lane), normalizedModes(warp)}; }

Layout cutLayout(Layout layout, std::span<const int64_t> extents) {
  auto isCut = [&](const Mode &mode) { return mode.axis >= 0 && extents[size_t(mode.axis)] == 1; };
  std::erase_if(layout.reg, isCut);
  for (auto *modes : {&layout.lane, &layout.warp})
    for (Mode &mode : *modes)
      if (isCut(mode))
        mode = {-1, mode.extent, 0};
  return layout.normalized();
}

Layout reducedLayout(const Layout &layout, std::span<const int64_t> axes, ModeKind over) {
  Layout result = layout;
  for (int64_t axis : axes) {
    if (over == ModeKind::Reg)
      std::erase_if(result.reg, [&](const Mode &mode) { return mode.axis == axis; });
    int64_t stride = 1;
    for (auto *modes : {&result.lane, &result.warp})
      for (Mode &mode : *modes) {
        if (mode.axis != axis)
          continue;
        if (over == ModeKind::Lane && modes == &result.lane) {
          mode = {-1, mode.extent, 0};
          continue;
        }
        mode.stride = stride;
        stride *= mode.extent;
      }
  }
  return result.normalized();
}

int64_t reducedExtent(const Layout &layout, int64_t axis, ModeKind over) {
  int64_t extent = 1;
  for (const Mode &mode : layout.warp)
    extent *= mode.axis == axis ? mode.extent : 1;
  if (over == ModeKind::Reg)
    for (const Mode &mode : layout.lane)
      extent *= mode.axis == axis ? mode.extent : 1;
  return extent;
}

bool layoutCovers(const Layout &layout, std::span<const int64_t> shape) {
  // Axis by axis: the modes of one axis, sorted by stride, must form a mixed-radix number that counts 0 .. extent - 1.
  std::vector<std::vector<Mode>> byAxis(shape.size());
  for (const auto *modes : {&layout.reg, &layout.lane, &layout.warp})
    for (const Mode &mode : *modes) {
      if (mode.extent < 1)
        return false;
      if (mode.axis < 0 || mode.extent == 1)
        continue;
      if (size_t(mode.axis) >= shape.size())
        return false;
      byAxis[size_t(mode.axis)].push_back(mode);
    }
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    auto &modes = byAxis[axis];
    std::sort(modes.begin(), modes.end(), [](const Mode &a, const Mode &b) { return a.stride < b.stride; });
    int64_t reached = 1;
    for (const Mode &mode : modes) {
      if (mode.stride != reached || mode.extent > shape[axis] / reached)
        return false;
      reached *= mode.extent;
    }
    if (reached != shape[axis])
      return false;
  }
  return true;
}

} // namespace minic
