#include "minic/Transforms/Analysis/ScheduleTable.h"

#include "ScheduleFile.h"

#include <algorithm>
#include <cassert>
#include <cstdio>
#include <limits>

namespace minic {

//===- Entries -===//

std::string TunedSchedule::sizesText() const {
  std::string text;
  for (int64_t size : sizes)
    text += (text.empty() ? "" : ", ") + std::to_string(size);
  return text;
}

const TunedSchedule *ScheduleTable::find(const TunedSchedule &like) const {
  auto it = std::ranges::find_if(list, [&](const TunedSchedule &entry) { return entry.key() == like.key(); });
  return it == list.end() ? nullptr : &*it;
}

void ScheduleTable::set(TunedSchedule entry) {
  auto place = std::ranges::lower_bound(list, entry.key(), {}, &TunedSchedule::key);
  if (place != list.end() && place->key() == entry.key())
    *place = std::move(entry);
  else
    list.insert(place, std::move(entry));
}

//===- Writing -===//

static std::string line(std::string_view word, const RecordAttr &schedule, double us, bool finished) {
  char time[48];
  std::snprintf(time, sizeof time, ", %.3f us", us);
  return std::string(word) + " " + Attribute(schedule).str() + time + (finished ? "" : ", unfinished") + "\n";
}

static std::string textOf(const TunedSchedule &entry) {
  std::string out = entry.title.empty() ? "" : "// " + entry.title + "\n";
  for (size_t end = out.find('\n'); end != out.npos && end + 1 < out.size(); end = out.find('\n', end + 1))
    out.insert(end + 1, "// ");
  out += "region " + entry.region + "\n";
  out += "sizes " + (entry.sizes.empty() ? "none" : entry.sizesText()) + "\n";
  out += "on " + entry.target + ", " + entry.numerics + ", " + entry.device + "\n";
  return out + line("default", entry.own, entry.ownUs, true) + line("best", entry.best, entry.bestUs, entry.finished);
}

std::string ScheduleTable::text() const {
  std::string out = std::string(schedulesHeader) + "\n";
  for (const TunedSchedule &entry : list)
    out += "\n" + textOf(entry);
  return out;
}

//===- Merging -===//

/// How many times as fast as the default; a time of 0 is faster than any.
static double gainOf(const TunedSchedule &entry) {
  return entry.bestUs > 0 ? entry.ownUs / entry.bestUs : std::numeric_limits<double>::infinity();
}

/// Whether of two entries of one key the first stays: a total order of what they say.
static bool isBetter(const TunedSchedule &a, const TunedSchedule &b) {
  if (a.finished != b.finished)
    return a.finished;
  if (double first = gainOf(a), second = gainOf(b); first != second)
    return first > second;
  if (a.bestUs != b.bestUs)
    return a.bestUs < b.bestUs;
  return textOf(a) < textOf(b);
}

std::vector<std::string> ScheduleTable::merge(const ScheduleTable &other) {
  std::vector<std::string> conflicts;
  for (const TunedSchedule &entry : other.list) {
    const TunedSchedule *known = find(entry);
    bool stays = known && !isBetter(entry, *known);
    if (known && known->best != entry.best) {
      const TunedSchedule &kept = stays ? *known : entry, &dropped = stays ? entry : *known;
      auto summary = [](const TunedSchedule &one) {
        char text[64];
        std::snprintf(text, sizeof text, "%.3f times as fast as its default%s", gainOf(one), one.finished ? "" : ", unfinished");
        return one.where() + " (" + text + ")";
      };
      conflicts.push_back(summary(kept) + " is taken, not " + summary(dropped));
    }
    if (!stays)
      set(entry);
  }
  return conflicts;
}

//===- What minic brings -===//

const ScheduleTable &shippedSchedules() {
  static const ScheduleTable table = [] {
    ScheduleTable all;
    for (const ShippedFile &file : shippedFiles()) {
      auto read = ScheduleTable::parse(SourceBuffer("minic's " + std::string(file.name), std::string(file.text)));
      assert(read && "a file of lib/Transforms/Schedules is damaged");
      if (read)
        all.merge(*read);
    }
    return all;
  }();
  return table;
}

} // namespace minic
