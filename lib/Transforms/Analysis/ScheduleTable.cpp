#include "minic/Transforms/Analysis/ScheduleTable.h"

#include "minic/IR/Parser.h"
#include "minic/IR/Schedule.h"
#include "minic/Transforms/Analysis/StructuralKey.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <utility>

namespace minic {

static constexpr std::string_view header = "minic schedules 1";

//===- Writing -===//

static std::string line(std::string_view word, const RecordAttr &schedule, double us, bool finished) {
  char time[48];
  std::snprintf(time, sizeof time, ", %.3f us", us);
  return std::string(word) + " " + Attribute(schedule).str() + time + (finished ? "" : ", unfinished") + "\n";
}

std::string ScheduleTable::text() const {
  std::string out = std::string(header) + "\n";
  for (const TunedSchedule &entry : list) {
    out += "\n" + (entry.title.empty() ? "" : "// " + entry.title + "\n");
    out += "region " + entry.region + "\n";
    out += "on " + entry.target + ", " + entry.numerics + ", " + entry.device + "\n";
    out += line("default", entry.own, entry.ownUs, true) + line("best", entry.best, entry.bestUs, entry.finished);
  }
  return out;
}

const TunedSchedule *ScheduleTable::find(const TunedSchedule &like) const {
  auto it = std::ranges::find_if(list, [&](const TunedSchedule &entry) { return entry.isOf(like); });
  return it == list.end() ? nullptr : &*it;
}

void ScheduleTable::set(TunedSchedule entry) {
  if (const TunedSchedule *known = find(entry)) {
    list[size_t(known - list.data())] = std::move(entry);
    return;
  }
  list.push_back(std::move(entry));
  uses.emplace_back();
}

//===- Reading -===//

namespace {

/// Reads entries line by line: `region`, `on`, `default` and `best`, in this order.
class TableReader {
public:
  explicit TableReader(std::string_view text) : lines(splitLines(text)) {}

  Expected<ScheduleTable> run() {
    std::string_view first = next();
    if (first != header)
      return fail("expected `" + std::string(header) + "` as the first line");
    for (std::string_view text = next(); number <= lines.size(); text = next())
      if (text != header) // Files may be written one behind the other.
        readEntry(text);
    if (!errors.empty())
      return std::move(errors);
    return std::move(table);
  }

private:
  static std::vector<std::string_view> splitLines(std::string_view text) {
    std::vector<std::string_view> lines;
    for (size_t start = 0; start < text.size();) {
      size_t end = std::min(text.find('\n', start), text.size());
      lines.push_back(text.substr(start, end - start));
      if (lines.back().ends_with('\r'))
        lines.back().remove_suffix(1);
      start = end + 1;
    }
    return lines;
  }

  /// The next line that says something; `number` is past the last one where there is none.
  std::string_view next() {
    while (number < lines.size()) {
      std::string_view text = lines[number++];
      if (!text.empty() && !text.starts_with("//"))
        return text;
      if (text.starts_with("//"))
        title = text.substr(std::min(text.find_first_not_of(' ', 2), text.size()));
    }
    ++number;
    return {};
  }

  Diagnostic fail(std::string message) {
    Diagnostic error{.code = ErrorCode::UnexpectedToken, .message = std::move(message)};
    error.loc = {uint32_t(std::min(number, std::max<size_t>(lines.size(), 1))), 1};
    return error;
  }

  /// What stands behind the word that a line starts with.
  std::optional<std::string_view> after(std::string_view word, std::string_view text) {
    if (text.starts_with(word) && text.substr(word.size()).starts_with(' '))
      return text.substr(word.size() + 1);
    report("expected `" + std::string(word) + " ...`" + (number > lines.size() ? " before the end of the file" : ""));
    return std::nullopt;
  }

  void report(std::string message) {
    constexpr size_t mostShown = 20;
    if (errors.size() < mostShown)
      errors.push_back(fail(std::move(message)));
  }

  void readEntry(std::string_view text) {
    TunedSchedule entry;
    entry.title = std::exchange(title, {});
    entry.line = uint32_t(number);
    auto region = after("region", text);
    if (!region)
      return;
    entry.region = *region;
    bool again = false; // A line that begins the next entry too early is read once more.
    for (auto read : {&TableReader::readPlace, &TableReader::readOwn, &TableReader::readBest}) {
      std::string_view rest = next();
      again = rest.starts_with("region ");
      if (!(this->*read)(rest, entry)) {
        if (again)
          --number;
        return;
      }
    }
    if (const TunedSchedule *known = table.find(entry))
      report("the region of line " + std::to_string(entry.line) + " has a schedule for " + entry.device + " at line " +
             std::to_string(known->line) + " already");
    else
      table.set(std::move(entry));
  }

  bool readPlace(std::string_view text, TunedSchedule &entry) {
    auto rest = after("on", text);
    if (!rest)
      return false;
    size_t first = rest->find(", "), second = first == rest->npos ? first : rest->find(", ", first + 2);
    if (second == rest->npos || second + 2 == rest->size())
      return report("expected a target, a numerics mode and a device, as in `on sm_90a, default, NVIDIA H200`"), false;
    entry.target = rest->substr(0, first);
    entry.numerics = rest->substr(first + 2, second - first - 2);
    entry.device = rest->substr(second + 2);
    return true;
  }

  bool readOwn(std::string_view text, TunedSchedule &entry) {
    bool finished = true;
    return readSchedule("default", text, entry.own, entry.ownUs, finished);
  }
  bool readBest(std::string_view text, TunedSchedule &entry) {
    return readSchedule("best", text, entry.best, entry.bestUs, entry.finished);
  }

  /// `default #rows<...>, 12.500 us`, and `, unfinished` behind it.
  bool readSchedule(std::string_view word, std::string_view text, RecordAttr &schedule, double &us, bool &finished) {
    auto rest = after(word, text);
    if (!rest)
      return false;
    constexpr std::string_view mark = ", unfinished", unit = " us";
    finished = !rest->ends_with(mark);
    if (!finished)
      rest->remove_suffix(mark.size());
    size_t comma = rest->rfind(", ");
    if (comma == rest->npos || !rest->ends_with(unit))
      return report("expected a schedule and its time, as in `" + std::string(word) + " #rows<...>, 12.500 us`"), false;
    std::string_view time = rest->substr(0, rest->size() - unit.size());
    time.remove_prefix(std::min(comma + 2, time.size())); // The comma may be that of the unit.
    auto [end, error] = std::from_chars(time.data(), time.data() + time.size(), us);
    if (error != std::errc() || end != time.data() + time.size() || !std::isfinite(us) || us < 0)
      return report("expected microseconds, not `" + std::string(time.substr(0, 32)) + "`"), false;
    auto attribute = parseAttribute(rest->substr(0, comma));
    const RecordAttr *record = attribute ? attribute->asRecord() : nullptr;
    if (!record)
      return report("expected a schedule, #rows<...>, #matmul<...> or #library<...>" +
                    (attribute ? std::string() : ": " + attribute.errors().front().message)),
             false;
    // How many axes the region has is seen when it is compiled.
    const Attribute *block = record->find("block");
    auto blocks = block ? block->asInts() : std::nullopt;
    if (auto parsed = Schedule::parse(*record, blocks ? int(std::min<size_t>(blocks->size(), 64)) : 3); !parsed)
      return report(parsed.errors().front().message), false;
    schedule = *record;
    return true;
  }

  std::vector<std::string_view> lines;
  size_t number = 0; ///< Lines read so far, so that of the current line from 1.
  std::string title; ///< The last comment.
  ScheduleTable table;
  Diagnostics errors;
};

} // namespace

Expected<ScheduleTable> ScheduleTable::parse(const SourceBuffer &source) { return TableReader(source.text()).run(); }

//===- Use -===//

std::string regionKey(const Operation &fusion) {
  return structuralKey(fusion.region(), [](const Value *) { return std::string("outside"); });
}

const RecordAttr *ScheduleTable::take(const std::string &region, const std::string &target, const std::string &numerics,
                                      const std::function<std::string(const RecordAttr &)> &whyUnfit) {
  const TunedSchedule *taken = nullptr;
  for (size_t i = 0; i < list.size(); ++i) {
    const TunedSchedule &entry = list[i];
    if (entry.region != region)
      continue;
    bool elsewhere = !device.empty() && entry.device != device;
    std::string why = entry.target != target       ? "it is for " + entry.target + ", not " + target
                      : entry.numerics != numerics ? "it is for " + entry.numerics + " numerics, not " + numerics
                      : elsewhere                  ? "it is for " + entry.device + ", not " + device
                      : taken                      ? "that of line " + std::to_string(taken->line) + " is"
                                                   : whyUnfit(entry.best);
    uses[i] = {.taken = why.empty(), .whyNot = why};
    if (why.empty())
      taken = &entry;
  }
  return taken ? &taken->best : nullptr;
}

std::vector<std::string> ScheduleTable::unused() const {
  std::vector<std::string> sentences;
  std::string others;
  size_t count = 0;
  constexpr size_t mostNamed = 8;
  for (size_t i = 0; i < list.size(); ++i) {
    if (uses[i].taken)
      continue;
    if (!uses[i].whyNot.empty())
      sentences.push_back("the schedule at line " + std::to_string(list[i].line) + " is not used: " + uses[i].whyNot);
    else if (++count <= mostNamed)
      others += (others.empty() ? "" : ", ") + std::to_string(list[i].line);
  }
  if (count)
    sentences.push_back((count == 1 ? "the schedule at line " : "the schedules at lines ") + others +
                        (count > mostNamed ? " and " + std::to_string(count - mostNamed) + " more" : "") +
                        (count == 1 ? " is" : " are") + " of other regions");
  return sentences;
}

} // namespace minic
