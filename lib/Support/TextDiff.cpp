// Myers, "An O(ND) Difference Algorithm and Its Variations" (1986), the greedy form.
#include "minic/Support/TextDiff.h"

#include <algorithm>
#include <span>
#include <vector>

namespace minic {
namespace {

using Lines = std::vector<std::string_view>;

Lines linesOf(std::string_view text) {
  Lines lines;
  while (!text.empty()) {
    size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return lines;
}

struct Change {
  char mark; ///< ' ', '-' or '+'.
  std::string_view line;
};

/// The changes that make `b` of `a`, whose first and last lines differ. Where there are too many all of `a` goes and all of `b`
/// comes.
std::vector<Change> changesOf(std::span<const std::string_view> a, std::span<const std::string_view> b) {
  constexpr int most = 1000;
  int n = int(a.size()), m = int(b.size());
  // reach[k] is how far into `a` the diagonal x - y = k gets with d changes; `steps` keeps it for each d.
  std::vector<int> reach(size_t(2 * most + 3), 0);
  auto at = [](std::vector<int> &reach, int k) -> int & { return reach[size_t(k + most + 1)]; };
  std::vector<std::vector<int>> steps;
  std::vector<Change> changes;
  for (int d = 0; d <= std::min(n + m, most); ++d) {
    steps.push_back(reach);
    for (int k = -d; k <= d; k += 2) {
      int x = k == -d || (k != d && at(reach, k - 1) < at(reach, k + 1)) ? at(reach, k + 1) : at(reach, k - 1) + 1;
      int y = x - k;
      for (; x < n && y < m && a[size_t(x)] == b[size_t(y)]; ++x, ++y)
        ;
      at(reach, k) = x;
      if (x < n || y < m)
        continue;
      for (; d > 0; --d) { // Back along the way that led here: common lines, and before them a change.
        std::vector<int> &before = steps[size_t(d)];
        k = x - y;
        bool inserted = k == -d || (k != d && at(before, k - 1) < at(before, k + 1));
        int fromX = at(before, inserted ? k + 1 : k - 1), fromY = fromX - (inserted ? k + 1 : k - 1);
        for (; x > fromX && y > fromY; --x, --y)
          changes.push_back({' ', a[size_t(x - 1)]});
        changes.push_back(inserted ? Change{'+', b[size_t(--y)]} : Change{'-', a[size_t(--x)]});
      }
      for (; x > 0; --x)
        changes.push_back({' ', a[size_t(x - 1)]});
      std::ranges::reverse(changes);
      return changes;
    }
  }
  for (std::string_view line : a)
    changes.push_back({'-', line});
  for (std::string_view line : b)
    changes.push_back({'+', line});
  return changes;
}

} // namespace

std::string textDiff(std::string_view before, std::string_view after, size_t context) {
  Lines a = linesOf(before), b = linesOf(after);
  size_t same = size_t(std::ranges::mismatch(a, b).in1 - a.begin()), end = 0;
  while (end < std::min(a.size(), b.size()) - same && a[a.size() - 1 - end] == b[b.size() - 1 - end])
    ++end;
  std::vector<Change> changes;
  for (size_t i = 0; i < same; ++i)
    changes.push_back({' ', a[i]});
  for (const Change &change :
       changesOf(std::span(a).subspan(same, a.size() - same - end), std::span(b).subspan(same, b.size() - same - end)))
    changes.push_back(change);
  for (size_t i = a.size() - end; i < a.size(); ++i)
    changes.push_back({' ', a[i]});

  std::string out;
  size_t lineA = 1, lineB = 1; // Of changes[i].
  for (size_t i = 0; i < changes.size();) {
    auto isChange = [](const Change &change) { return change.mark != ' '; };
    size_t first = size_t(std::find_if(changes.begin() + long(i), changes.end(), isChange) - changes.begin());
    if (first == changes.size())
      break;
    size_t begin = first - std::min(first - i, context), last = first;
    for (size_t j = first; j < changes.size() && j <= last + 2 * context + 1; ++j)
      if (isChange(changes[j]))
        last = j;
    size_t stop = std::min(last + 1 + context, changes.size());
    lineA += begin - i;
    lineB += begin - i;
    size_t countA = 0, countB = 0;
    std::string hunk;
    for (size_t j = begin; j < stop; ++j) {
      countA += changes[j].mark != '+';
      countB += changes[j].mark != '-';
      hunk += changes[j].mark + std::string(changes[j].line) + (changes[j].line.ends_with('\n') ? "" : "\n");
    }
    out += "@@ -" + std::to_string(countA ? lineA : lineA - 1) + "," + std::to_string(countA) + " +" +
           std::to_string(countB ? lineB : lineB - 1) + "," + std::to_string(countB) + " @@\n" + hunk;
    lineA += countA;
    lineB += countB;
    i = stop;
  }
  return out;
}

} // namespace minic
