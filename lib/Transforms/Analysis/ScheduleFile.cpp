// Files of schedules: reading.
#include "ScheduleFile.h"

#include "minic/IR/Parser.h"
#include "minic/IR/Schedule.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

namespace minic {
namespace {

/// Reads entries line by line: `region`, `on`, `default` and `best`, in this order.
class TableReader {
public:
  explicit TableReader(const SourceBuffer &source) : name(source.name()), lines(splitLines(source.text())) {}

  Expected<ScheduleTable> run() {
    std::string_view first = next();
    if (first == "minic schedules 1")
      return fail("the file is of version 1, whose regions have no classes of sizes; tune again, into a new file");
    if (first != schedulesHeader)
      return fail("expected `" + std::string(schedulesHeader) + "` as the first line");
    dropTitle();
    for (std::string_view text = next(); number <= lines.size(); text = next())
      if (text != schedulesHeader) // Files may be written one behind the other.
        readEntry(text);
      else
        dropTitle();
    dropTitle();
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
      if (text.empty()) {
        dropTitle();
        continue;
      }
      if (!text.starts_with("//"))
        return text;
      title += (titleLine ? "\n" : "") + std::string(text.substr(std::min(text.find_first_not_of(' ', 2), text.size())));
      titleLine = titleLine ? titleLine : uint32_t(number);
    }
    ++number;
    return {};
  }

  /// A comment that stands before no region.
  void dropTitle() {
    if (titleLine)
      table.looseComments.push_back(titleLine);
    title.clear();
    titleLine = 0;
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
    auto region = after("region", text);
    if (!region)
      return;
    TunedSchedule entry;
    entry.title = std::exchange(title, {});
    titleLine = 0;
    entry.file = name;
    entry.line = uint32_t(number);
    entry.region = *region;
    bool again = false; // A line that begins the next entry too early is read once more.
    for (auto read : {&TableReader::readSizes, &TableReader::readPlace, &TableReader::readOwn, &TableReader::readBest}) {
      std::string_view rest = next();
      again = rest.starts_with("region ");
      if (!(this->*read)(rest, entry)) {
        if (again)
          --number;
        return;
      }
    }
    dropTitle(); // What stood between the lines.
    if (const TunedSchedule *known = table.find(entry))
      report("the region of line " + std::to_string(entry.line) + " has a schedule for these sizes on " + entry.device +
             " at line " + std::to_string(known->line) + " already");
    else
      table.set(std::move(entry));
  }

  bool readSizes(std::string_view text, TunedSchedule &entry) {
    auto rest = after("sizes", text);
    if (!rest)
      return false;
    if (*rest == "none")
      return true;
    for (;;) {
      int64_t size = 0;
      auto [end, error] = std::from_chars(rest->data(), rest->data() + rest->size(), size);
      if (error != std::errc() || size < 2)
        break;
      entry.sizes.push_back(size);
      rest->remove_prefix(size_t(end - rest->data()));
      if (rest->empty())
        return true;
      if (!rest->starts_with(", "))
        break;
      rest->remove_prefix(2);
    }
    return report("expected the sizes that the region's letters stand for, as in `sizes 4096, 781`, or `sizes none`"), false;
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

  std::string name;
  std::vector<std::string_view> lines;
  size_t number = 0;      ///< Lines read so far, so that of the current line from 1.
  std::string title;      ///< The comment lines right before.
  uint32_t titleLine = 0; ///< Where they begin; 0 if there are none.
  ScheduleTable table;
  Diagnostics errors;
};

} // namespace

Expected<ScheduleTable> ScheduleTable::parse(const SourceBuffer &source) { return TableReader(source).run(); }

} // namespace minic
