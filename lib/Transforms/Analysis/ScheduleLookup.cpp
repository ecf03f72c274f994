#include "minic/Transforms/Analysis/ScheduleLookup.h"

#include <algorithm>

namespace minic {
namespace {

/// How far the sizes of an entry are from those of a region; nothing where they are not of the same classes. Of a name its largest
/// value counts.
std::optional<double> distance(const std::vector<int64_t> &tuned, const std::vector<DimExpr> &sizes,
                               std::span<const DimFact> facts) {
  double sum = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    auto asked = SizeClass::of(sizes[i], facts);
    if (!asked || asked != SizeClass::of(tuned[i]))
      return std::nullopt;
    double size = double(mostOf(sizes[i], facts)), other = double(tuned[i]);
    sum += std::max(size, other) / std::min(size, other) - 1;
  }
  return sum;
}

bool areEqual(const std::vector<int64_t> &tuned, const std::vector<DimExpr> &sizes) {
  return std::ranges::equal(tuned, sizes, [](int64_t number, const DimExpr &size) { return size.isConstant(number); });
}

std::string textOf(const std::vector<DimExpr> &sizes) {
  std::string text;
  for (const DimExpr &size : sizes)
    text += (text.empty() ? "" : ", ") + size.str();
  return text;
}

} // namespace

ScheduleOrigin ScheduleLookup::take(const RegionKey &region, std::span<const DimFact> facts, const std::string &target,
                                    const std::string &numerics,
                                    const std::function<std::string(const RecordAttr &)> &whyUnfit) const {
  ScheduleOrigin origin;
  std::vector<std::pair<double, const TunedSchedule *>> suitable;
  for (const ScheduleTable *table : tables)
    for (const TunedSchedule &entry : table->entries()) {
      if (entry.region != region.text || entry.sizes.size() != region.sizes.size())
        continue;
      auto far = distance(entry.sizes, region.sizes, facts);
      bool elsewhere = !device.empty() && entry.device != device;
      if (entry.target != target)
        origin.others.emplace_back(&entry, "it is for " + entry.target + ", not " + target);
      else if (entry.numerics != numerics)
        origin.others.emplace_back(&entry, "it is for " + entry.numerics + " numerics, not " + numerics);
      else if (elsewhere)
        origin.others.emplace_back(&entry, "it is for " + entry.device + ", not " + device);
      else if (!far)
        origin.others.emplace_back(&entry, "it is for sizes " + entry.sizesText() + ", which are of other classes than " +
                                               textOf(region.sizes));
      else
        suitable.emplace_back(*far, &entry);
    }
  std::ranges::stable_sort(suitable, {}, [](const auto &each) { return each.first; });
  for (const auto &[far, entry] : suitable) {
    std::string why = origin.entry ? "that of " + origin.entry->where() + " is" : whyUnfit(entry->best);
    if (!why.empty()) {
      origin.others.emplace_back(entry, why);
      continue;
    }
    origin.kind = ScheduleOrigin::Tuned;
    origin.entry = entry;
    origin.isExact = areEqual(entry->sizes, region.sizes);
  }
  return origin;
}

std::vector<std::string> unusedSchedules(const ScheduleTable &table, const ScheduleReport &report) {
  std::vector<std::string> sentences;
  std::string foreign;
  size_t count = 0;
  constexpr size_t mostNamed = 8;
  for (const TunedSchedule &entry : table.entries()) {
    if (std::ranges::any_of(report, [&](const ScheduleOrigin &origin) { return origin.entry == &entry; }))
      continue;
    const std::string *why = nullptr;
    for (const ScheduleOrigin &origin : report)
      for (const auto &[other, reason] : origin.others)
        if (other == &entry)
          why = &reason;
    if (why)
      sentences.push_back("the schedule at " + entry.where() + " is not used: " + *why);
    else if (++count <= mostNamed)
      foreign += (foreign.empty() ? "" : ", ") + std::to_string(entry.line);
  }
  if (count)
    sentences.push_back((count == 1 ? "the schedule at line " : "the schedules at lines ") + foreign +
                        (count > mostNamed ? " and " + std::to_string(count - mostNamed) + " more" : "") + " of " +
                        table.entries().front().file + (count == 1 ? " is" : " are") + " of other regions");
  return sentences;
}

} // namespace minic
