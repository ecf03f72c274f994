// Where the elements of a tile live: registers, lanes and warps.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace minic {

/// One digit of a mixed-radix position: it counts to `extent` and moves `stride` elements along `axis` a step. An axis of -1 moves
/// nothing: the holders of that digit hold copies.
struct Mode {
  int axis = -1;
  int64_t extent = 1;
  int64_t stride = 0;
  friend bool operator==(const Mode &, const Mode &) = default;
  friend auto operator<=>(const Mode &, const Mode &) = default;
};

/// A map from (register, lane, warp) to an element of a tile: the element's index along each axis is the sum over all modes of
/// digit * stride. In each list the first mode is the fastest digit. Extents need not be powers of two, but the product of the lane
/// modes is the warp size (32).
struct Layout {
  std::vector<Mode> reg, lane, warp;

  int64_t numRegs() const;
  int64_t numLanes() const;
  int64_t numWarps() const;
  /// Adds to `index` (one entry per tile axis) what register `r`, lane `l`, warp `w` contribute.
  void addRegister(int64_t r, std::span<int64_t> index) const;
  void addThread(int64_t lane, int64_t warp, std::span<int64_t> index) const;
  /// The same map with modes of extent 1 dropped and neighbouring copies merged: the form in which layouts are compared.
  Layout normalized() const;
  /// `reg = [1:4@1, 1:8@128], lane = [1:32@4], warp = [0:4@1]`; a replicated mode is `_:4`.
  std::string str() const;

  friend bool operator==(const Layout &, const Layout &) = default;
  friend auto operator<=>(const Layout &, const Layout &) = default;
};

/// True if the layout holds every element of a tile of this shape, each at the same number of places, and nothing outside it.
bool layoutCovers(const Layout &layout, std::span<const int64_t> shape);

/// The layout of a tile that is stretched to the layout's own shape later: along axes of extent 1 lanes and warps hold copies, and
/// a thread holds one position. Normalized.
Layout cutLayout(Layout layout, std::span<const int64_t> extents);

/// The layout after the register modes (or the lane modes) of `axes` were combined: those modes vanish (or become copies), and what
/// is left of each axis is renumbered from stride 1, lanes first, then warps. Normalized.
enum class ModeKind : uint8_t { Reg, Lane };
Layout reducedLayout(const Layout &layout, std::span<const int64_t> axes, ModeKind over);
/// Extent of `axis` that the lane and warp modes (or the warp modes alone) still hold after such a step.
int64_t reducedExtent(const Layout &layout, int64_t axis, ModeKind over);

} // namespace minic
