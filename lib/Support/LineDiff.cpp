#include "minic/Support/LineDiff.h"

#include "minic/Support/Text.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <unordered_map>

namespace minic {
namespace {

/// Cells of a table of longest common subsequences that are worth their time.
constexpr size_t mostCells = 1 << 20;

class Differ {
public:
  Differ(std::span<const int> before, std::span<const int> after) : a(before), b(after) {}

  std::vector<DiffStretch> run() {
    compare(0, a.size(), 0, b.size());
    skipTo(a.size(), b.size());
    return std::move(stretches);
  }

private:
  /// All between what was matched last and here differs.
  void skipTo(size_t i, size_t j) {
    if (i > doneA || j > doneB)
      stretches.push_back({false, i - doneA, j - doneB});
    doneA = i;
    doneB = j;
  }
  void match(size_t i, size_t j) {
    skipTo(i, j);
    if (stretches.empty() || !stretches.back().equal)
      stretches.push_back({true, 0, 0});
    ++stretches.back().before;
    ++stretches.back().after;
    ++doneA;
    ++doneB;
  }

  void compare(size_t i, size_t endA, size_t j, size_t endB) {
    while (i < endA && j < endB && a[i] == b[j])
      match(i++, j++);
    size_t tail = 0;
    while (i < endA - tail && j < endB - tail && a[endA - tail - 1] == b[endB - tail - 1])
      ++tail;
    size_t stopA = endA - tail, stopB = endB - tail;
    if (i < stopA && j < stopB) {
      auto anchors = sharedOnce(i, stopA, j, stopB);
      if (!anchors.empty()) {
        for (auto [x, y] : anchors) {
          compare(i, x, j, y);
          match(x, y);
          i = x + 1;
          j = y + 1;
        }
        compare(i, stopA, j, stopB);
      } else if ((stopA - i) * (stopB - j) <= mostCells) {
        matchCommon(i, stopA, j, stopB);
      }
    }
    for (; tail; --tail)
      match(endA - tail, endB - tail);
  }

  /// Places of lines that each part has once, in the longest order that rises in both.
  std::vector<std::pair<size_t, size_t>> sharedOnce(size_t i, size_t endA, size_t j, size_t endB) const {
    struct Seen {
      int inA = 0, inB = 0;
      size_t x = 0, y = 0;
    };
    std::unordered_map<int, Seen> seen; // Looked up only.
    for (size_t x = i; x < endA; ++x) {
      ++seen[a[x]].inA;
      seen[a[x]].x = x;
    }
    for (size_t y = j; y < endB; ++y) {
      ++seen[b[y]].inB;
      seen[b[y]].y = y;
    }
    std::vector<std::pair<size_t, size_t>> once;
    for (size_t x = i; x < endA; ++x)
      if (const Seen &line = seen[a[x]]; line.inA == 1 && line.inB == 1)
        once.push_back({x, line.y});
    // The longest rising subsequence: piles by their last, each with the one before.
    std::vector<size_t> piles, previous(once.size(), SIZE_MAX);
    for (size_t n = 0; n < once.size(); ++n) {
      auto pile = std::ranges::lower_bound(piles, once[n].second, {}, [&](size_t m) { return once[m].second; });
      if (pile != piles.begin())
        previous[n] = *(pile - 1);
      if (pile == piles.end())
        piles.push_back(n);
      else
        *pile = n;
    }
    std::vector<std::pair<size_t, size_t>> longest;
    for (size_t n = piles.empty() ? SIZE_MAX : piles.back(); n != SIZE_MAX; n = previous[n])
      longest.push_back(once[n]);
    std::ranges::reverse(longest);
    return longest;
  }

  /// The longest common subsequence, by a table.
  void matchCommon(size_t i, size_t endA, size_t j, size_t endB) {
    size_t width = endB - j + 1;
    std::vector<uint32_t> longest((endA - i + 1) * width);
    for (size_t x = endA; x-- > i;)
      for (size_t y = endB; y-- > j;)
        longest[(x - i) * width + (y - j)] =
            a[x] == b[y] ? longest[(x - i + 1) * width + (y - j + 1)] + 1
                         : std::max(longest[(x - i + 1) * width + (y - j)], longest[(x - i) * width + (y - j + 1)]);
    for (size_t x = i, y = j; x < endA && y < endB;)
      if (a[x] == b[y])
        match(x++, y++);
      else if (longest[(x - i + 1) * width + (y - j)] >= longest[(x - i) * width + (y - j + 1)])
        ++x;
      else
        ++y;
  }

  std::span<const int> a, b;
  size_t doneA = 0, doneB = 0;
  std::vector<DiffStretch> stretches;
};

} // namespace

std::vector<DiffStretch> diffLines(std::span<const int> before, std::span<const int> after) { return Differ(before, after).run(); }

//===- Unified diffs -===//

namespace {

/// Some lines of each text, from a line on; the common ones are both's.
struct Hunk {
  size_t startA, startB, countA = 0, countB = 0;
  std::string text = {};

  void common(std::span<const std::string_view> lines) {
    add(' ', lines);
    countA += lines.size();
    countB += lines.size();
  }
  void add(char mark, std::span<const std::string_view> lines) {
    for (std::string_view line : lines)
      text += mark + std::string(line) + "\n";
  }
  /// An empty side stands behind the line that it names.
  std::string str() const {
    auto range = [](size_t start, size_t count) { return std::to_string(start + (count > 0)) + "," + std::to_string(count); };
    return "@@ -" + range(startA, countA) + " +" + range(startB, countB) + " @@\n" + text;
  }
};

} // namespace

std::string textDiff(std::string_view before, std::string_view after, size_t context) {
  std::vector<std::string_view> a = linesOf(before), b = linesOf(after);
  std::unordered_map<std::string_view, int> known; // Looked up only.
  auto numbers = [&](const std::vector<std::string_view> &lines) {
    std::vector<int> result;
    for (std::string_view line : lines)
      result.push_back(known.try_emplace(line, int(known.size())).first->second);
    return result;
  };
  std::vector<int> ofA = numbers(a), ofB = numbers(b);
  std::string out;
  std::optional<Hunk> hunk; // The one that has not ended.
  size_t i = 0, j = 0;
  auto lines = [&](size_t first, size_t count) { return std::span(a).subspan(first, count); };
  for (const DiffStretch &stretch : diffLines(ofA, ofB)) {
    if (!stretch.equal) {
      if (!hunk) {
        size_t lead = std::min(i, context);
        hunk = Hunk{i - lead, j - lead};
        hunk->common(lines(i - lead, lead));
      }
      hunk->add('-', lines(i, stretch.before));
      hunk->add('+', std::span(b).subspan(j, stretch.after));
      hunk->countA += stretch.before;
      hunk->countB += stretch.after;
    } else if (hunk) {
      bool isLast = i + stretch.before == a.size() && j + stretch.after == b.size();
      if (!isLast && stretch.before <= 2 * context) {
        hunk->common(lines(i, stretch.before));
      } else {
        hunk->common(lines(i, std::min(stretch.before, context)));
        out += hunk->str();
        hunk.reset();
      }
    }
    i += stretch.before;
    j += stretch.after;
  }
  return hunk ? out + hunk->str() : out;
}

} // namespace minic
