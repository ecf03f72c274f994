#include "minic/IR/Schedule.h"

#include "minic/IR/SharedLayout.h"

#include <algorithm>
#include <bit>

namespace minic {

int64_t Schedule::numWarps() const {
  int64_t n = 1;
  for (int64_t w : warps)
    n *= w;
  return n;
}

Schedule Schedule::library(int rank) {
  Schedule s;
  s.family = Family::Library;
  for (auto *list : {&s.block, &s.warps, &s.lanes, &s.vec})
    list->assign(size_t(rank), 1);
  return s;
}

RecordAttr Schedule::toAttr() const {
  if (isLibrary())
    return {"library", {{"name", Attribute::word("cublaslt")}}};
  if (family == Family::Rows) {
    RecordAttr rows = {"rows",
                       {{"block", Attribute::ints(block)},
                        {"warps", Attribute::ints(warps)},
                        {"lanes", Attribute::ints(lanes)},
                        {"vec", Attribute(vec.empty() ? int64_t(1) : vec.back())}}};
    for (auto [name, value] : {std::pair("align", align), std::pair("cluster", cluster), std::pair("resident", resident)})
      if (value > 1)
        rows.fields.push_back({name, Attribute(value)});
    return rows;
  }
  size_t m = block.size() - 3, n = m + 1, k = m + 2;
  if (unit == Unit::Wgmma)
    return {"matmul",
            {{"bm", block[m]},
             {"bn", block[n]},
             {"bk", block[k]},
             {"unit", Attribute::word("wgmma")},
             {"stages", Attribute(stages)},
             {"raster", Attribute(raster)}}};
  if (unit == Unit::Mma)
    return {"matmul",
            {{"bm", block[m]},
             {"bn", block[n]},
             {"bk", block[k]},
             {"unit", Attribute::word("mma")},
             {"warps", Attribute::ints({warps[m], warps[n]})},
             {"stages", Attribute(stages)},
             {"raster", Attribute(raster)}}};
  RecordAttr record{"matmul",
                    {{"bm", block[m]},
                     {"bn", block[n]},
                     {"bk", block[k]},
                     {"warps", Attribute::ints({warps[m], warps[n]})},
                     {"lanes", Attribute::ints({lanes[m], lanes[n]})},
                     {"vec", Attribute(vec[n])}}};
  if (stages > 0) {
    record.fields.push_back({"stages", Attribute(stages)});
    record.fields.push_back({"raster", Attribute(raster)});
  }
  return record;
}

/// A thread has 255 registers; what is beyond a few times that can only spill.
static constexpr int64_t maxElementsPerThread = 1024;

namespace {

/// Reads fields of a schedule record and remembers the first thing that is wrong.
class FieldReader {
public:
  explicit FieldReader(const RecordAttr &attr) : attr(attr) {}

  /// The word of the field, one of these.
  std::string word(std::string_view name, std::initializer_list<std::string_view> choices) {
    const Attribute *field = find(name);
    std::string text = field ? field->str() : "", expected;
    for (std::string_view choice : choices)
      expected += (expected.empty() ? "`" : " or `") + std::string(choice) + "`";
    if (std::ranges::find(choices, text) == choices.end())
      fail(name, "expected " + expected);
    return text;
  }
  int64_t number(std::string_view name) { return checked(name, integer(name)); }
  /// A count, which need be no power of two.
  int64_t count(std::string_view name, int64_t most) {
    int64_t value = integer(name);
    if (value < 1 || value > most)
      return fail(name, std::to_string(value) + " is not from 1 to " + std::to_string(most)), 1;
    return value;
  }
  std::vector<int64_t> list(std::string_view name, size_t size) {
    const Attribute *field = find(name);
    auto values = field ? field->asInts() : std::nullopt;
    if (!values || values->size() != size) {
      fail(name, "expected a list of " + std::to_string(size) + " integers");
      return std::vector<int64_t>(size, 1);
    }
    for (int64_t value : *values)
      checked(name, value);
    return *values;
  }
  std::optional<Diagnostic> finish() {
    for (const auto &[name, value] : attr.fields)
      if (std::ranges::find(read, name) == read.end())
        fail(name, "unknown field");
    return error;
  }
  void fail(std::string_view name, std::string why) {
    if (!error)
      error = Diagnostic{.code = ErrorCode::BadSchedule,
                         .message = "schedule #" + attr.name + ", field '" + std::string(name) + "': " + why};
  }

private:
  int64_t integer(std::string_view name) {
    const Attribute *field = find(name);
    if (!field || !field->asInt())
      return fail(name, "expected an integer"), 1;
    return *field->asInt();
  }
  int64_t checked(std::string_view name, int64_t value) {
    if (value < 1 || value > (1 << 20) || !std::has_single_bit(uint64_t(value)))
      return fail(name, std::to_string(value) + " is not a power of two between 1 and 1048576"), 1;
    return value;
  }
  const Attribute *find(std::string_view name) {
    read.push_back(name);
    return attr.find(name);
  }
  const RecordAttr &attr;
  std::vector<std::string_view> read; ///< Fields that this kind of schedule has.
  std::optional<Diagnostic> error;
};

/// The tensor cores of sm_90a: a warpgroup has 64 rows and at most 256 columns; a block of k is a swizzled row of 128 bytes.
void readWgmma(Schedule &s, FieldReader &fields) {
  size_t n = s.block.size() - 2, m = n - 1, k = n + 1;
  s.unit = Schedule::Unit::Wgmma;
  if (s.block[m] != 64 && s.block[m] != 128)
    fields.fail("bm", "wgmma has 64 rows in a warpgroup, and there are one or two of those");
  if (s.block[n] < 64 || s.block[n] > 256)
    fields.fail("bn", "wgmma has blocks of 64, 128 or 256 columns here");
  if (s.block[k] < 32 || s.block[k] > 128)
    fields.fail("bk", "wgmma has blocks of 128 bytes here: 32, 64 or 128 elements");
  s.warps[m] = s.block[m] / 16;
  s.lanes[n] = 32;
}

/// The tensor cores of a warp: it has 16 rows and 8 or 16 columns at a time, and 8, 16 or 32 elements of k. Blocks are repeats of
/// what all warps have.
void readMma(Schedule &s, FieldReader &fields) {
  size_t n = s.block.size() - 2, m = n - 1, k = n + 1;
  s.unit = Schedule::Unit::Mma;
  std::vector<int64_t> warps = fields.list("warps", 2);
  s.stages = fields.count("stages", maxStages);
  s.raster = fields.number("raster");
  s.warps[m] = warps[0];
  s.warps[n] = warps[1];
  s.lanes[n] = 32;
  std::string every = " for each of " + std::to_string(warps[0]) + " and " + std::to_string(warps[1]) + " warps";
  if (s.block[m] < 16 * warps[0] || s.block[m] > 256)
    fields.fail("bm", "mma has at least 16 rows" + every + " and at most 256 here");
  if (s.block[n] < std::max<int64_t>(8 * warps[1], 16) || s.block[n] > 256)
    fields.fail("bn", "mma has at least 8 columns" + every + ", and from 16 to 256 here");
  if (s.block[k] < 16 || s.block[k] > 128)
    fields.fail("bk", "mma has blocks of 16 to 128 here");
  constexpr int64_t mostAlongAxis = 8, mostWarps = 16; // A part of the sums of all warps goes through static shared memory.
  if (warps[0] > mostAlongAxis || warps[1] > mostAlongAxis || warps[0] * warps[1] > mostWarps)
    fields.fail("warps", "mma has at most 8 warps along an axis and 16 together here");
  constexpr int64_t mostAccumulators = 128; // Of 255 registers; fragments and addresses take the rest.
  if (s.block[m] * s.block[n] > mostAccumulators * s.numThreads())
    fields.fail("warps", "a thread would hold " + std::to_string(s.block[m] * s.block[n] / s.numThreads()) +
                             " accumulators, more than " + std::to_string(mostAccumulators));
}

} // namespace

Expected<Schedule> Schedule::parse(const RecordAttr &attr, int rank) {
  Schedule s;
  FieldReader fields(attr);
  size_t axes = size_t(rank);
  if (attr.name == "library") {
    fields.word("name", {"cublaslt"});
    if (auto error = fields.finish())
      return std::move(*error);
    return library(rank);
  }
  if (attr.name == "rows") {
    s.block = fields.list("block", axes);
    s.warps = fields.list("warps", axes);
    s.lanes = fields.list("lanes", axes);
    s.vec.assign(axes, 1);
    int64_t vec = fields.number("vec");
    if (axes)
      s.vec.back() = vec;
    if (attr.find("align"))
      s.align = fields.number("align");
    if (attr.find("cluster"))
      s.cluster = fields.number("cluster");
    if (attr.find("resident"))
      s.resident = fields.number("resident");
  } else if (attr.name == "matmul") {
    if (rank < 3)
      return Diagnostic{.code = ErrorCode::BadSchedule,
                        .message = "schedule #matmul needs a region with rows, columns and a contracted axis"};
    s.family = Family::Matmul;
    for (auto *list : {&s.block, &s.warps, &s.lanes, &s.vec})
      list->assign(axes, 1);
    size_t m = axes - 3, n = m + 1, k = m + 2;
    s.block[m] = fields.number("bm");
    s.block[n] = fields.number("bn");
    s.block[k] = fields.number("bk");
    if (attr.find("unit")) {
      if (fields.word("unit", {"wgmma", "mma"}) == "mma")
        readMma(s, fields);
      else
        readWgmma(s, fields);
    } else {
      std::vector<int64_t> warps = fields.list("warps", 2), lanes = fields.list("lanes", 2);
      int64_t vec = fields.number("vec");
      for (size_t i = 0; i < 2; ++i) {
        s.warps[m + i] = warps[i];
        s.lanes[m + i] = lanes[i];
        s.vec[m + i] = vec;
      }
    }
    if (s.unit == Unit::Wgmma || (s.unit == Unit::Fma && attr.find("stages"))) {
      s.stages = fields.count("stages", maxStages);
      s.raster = fields.number("raster");
    }
  } else {
    return Diagnostic{.code = ErrorCode::BadSchedule,
                      .message = "unknown schedule #" + attr.name,
                      .fix = "use #rows<...>, #matmul<...> or #library<...>"};
  }
  int64_t lanes = 1;
  for (int64_t l : s.lanes)
    lanes *= l;
  if (lanes != 32 && rank > 0) // Without axes every lane holds a copy.
    fields.fail("lanes", "the product is " + std::to_string(lanes) + ", and a warp has 32 lanes");
  if (s.cluster > maxClusterCtas || s.numWarps() % s.cluster != 0)
    fields.fail("cluster", "at most " + std::to_string(maxClusterCtas) + " CTAs, with a warp each");
  if (s.resident > maxResidentCtas)
    fields.fail("resident", "more than " + std::to_string(maxResidentCtas));
  if (s.numWarps() > 32 * s.cluster)
    fields.fail("warps", s.cluster > 1 ? "more than 32 warps for each CTA" : "more than 32 warps");
  if (s.align > 16)
    fields.fail("align", "more than 16");
  for (int64_t vec : s.vec)
    if (vec > 16)
      fields.fail("vec", "more than 16");
  // The largest tile: everything of #rows, the accumulator of #matmul.
  int64_t elements = 1;
  for (size_t axis = 0; axis < axes - (s.family == Family::Matmul ? 1 : 0); ++axis)
    elements = std::min<int64_t>(elements * s.block[axis], int64_t(1) << 40);
  if (elements > maxElementsPerThread * s.numThreads())
    fields.fail(s.family == Family::Rows ? "block" : "bm", "a tile of " + std::to_string(elements) + " elements on " +
                                                               std::to_string(s.numThreads()) + " threads, more than " +
                                                               std::to_string(maxElementsPerThread) + " each");
  if (auto error = fields.finish())
    return std::move(*error);
  return s;
}

Expected<Schedule> Schedule::parseForKernel(const RecordAttr &attr, int rank) {
  auto schedule = parse(attr, rank);
  if (schedule && schedule->isLibrary())
    return Diagnostic{.code = ErrorCode::BadSchedule,
                      .message = "schedule #library is for a region, which has no kernel then",
                      .fix = "use #rows<...> or #matmul<...>"};
  return schedule;
}

Layout Schedule::layoutOf(std::span<const int64_t> extents) const {
  Layout layout;
  std::vector<int64_t> left(extents.begin(), extents.end()), stride(extents.size(), 1);
  // Takes `want` positions of an axis; what the tile does not have is held as copies.
  auto take = [&](std::vector<Mode> &modes, size_t axis, int64_t want, bool copies) {
    int64_t have = std::min(want, left[axis]);
    if (have > 1)
      modes.push_back({int(axis), have, stride[axis]});
    left[axis] /= have;
    stride[axis] *= have;
    if (copies && want > have)
      modes.push_back({-1, want / have, 0});
  };
  if (extents.empty())
    layout.lane.push_back({-1, 32, 0});
  // Fastest axis last in the lists, first in the modes.
  for (size_t axis = extents.size(); axis-- > 0;)
    take(layout.reg, axis, vec[axis], false);
  for (size_t axis = extents.size(); axis-- > 0;)
    take(layout.lane, axis, lanes[axis], true);
  for (size_t axis = extents.size(); axis-- > 0;)
    take(layout.warp, axis, warps[axis], true);
  for (size_t axis = extents.size(); axis-- > 0;)
    take(layout.reg, axis, left[axis], false);
  return layout.normalized();
}

Layout Schedule::coalesced(std::span<const int64_t> extents, std::span<const int> order, int64_t vec, int64_t warps) {
  Layout layout;
  std::vector<int64_t> left(extents.begin(), extents.end()), stride(extents.size(), 1);
  auto take = [&](std::vector<Mode> &modes, int axis, int64_t want) {
    size_t a = size_t(axis);
    int64_t have = std::min(want, left[a]);
    if (have > 1)
      modes.push_back({axis, have, stride[a]});
    left[a] /= have;
    stride[a] *= have;
    return want / have;
  };
  take(layout.reg, order[0], vec);
  for (auto [modes, want] : {std::pair(&layout.lane, int64_t(32)), std::pair(&layout.warp, warps)}) {
    for (int axis : order)
      want = take(*modes, axis, want);
    if (want > 1)
      modes->push_back({-1, want, 0});
  }
  for (int axis : order)
    take(layout.reg, axis, left[size_t(axis)]);
  return layout.normalized();
}

static bool hasField(const Function &kernel, std::string_view name) {
  const Attribute *schedule = kernel.attr("schedule");
  return kernel.kind == FunctionKind::Kernel && schedule && schedule->asRecord() && schedule->asRecord()->find(name);
}

bool isStaged(const Function &kernel) { return hasField(kernel, "unit") || hasField(kernel, "stages"); }

bool isWarpSpecialized(const Function &kernel) { return isStaged(kernel) && !runsOnUnit(kernel, "mma"); }

bool runsOnUnit(const Function &kernel, std::string_view unit) {
  return hasField(kernel, "unit") && kernel.attr("schedule")->asRecord()->find("unit")->str() == unit;
}

Expected<Schedule> stagedSchedule(const Function &kernel, int rank) {
  auto schedule = Schedule::parseForKernel(*kernel.attr("schedule")->asRecord(), rank);
  if (schedule)
    return schedule;
  Diagnostic error = schedule.errors().front();
  error.loc = kernel.loc;
  return error;
}

std::vector<ReductionStep> reductionOrder(const Layout &layout, int axis) {
  std::vector<ReductionStep> steps;
  for (const auto *modes : {&layout.reg, &layout.lane, &layout.warp})
    for (size_t i = modes->size(); i-- > 0;)
      if ((*modes)[i].axis == axis && (*modes)[i].extent > 1)
        steps.push_back({(*modes)[i].extent, (*modes)[i].stride});
  return steps;
}

} // namespace minic
