// choose-schedule: gives every fusion region without a schedule the one that was found by tuning, else the cost model's choice. A
// schedule written by hand stays. With `--matmul=cublaslt` every product is the library's; with `auto`, where tuning found that.
//
//   %y = fusion %x { ... }  ->  %y = fusion %x, schedule = #rows<block = [4, 1024], warps = [4, 1], lanes = [1, 32], vec = 4> { ...
//   }
//
// Options force fields of the schedules that it gives: choose-schedule{bm=64,stages=4}.
#include "minic/IR/Parser.h"
#include "minic/Transforms/Analysis/LibraryMatmul.h"
#include "minic/Transforms/Analysis/ScheduleChoice.h"
#include "minic/Transforms/Analysis/ScheduleLookup.h"
#include "minic/Transforms/Analysis/ScheduleSpace.h"
#include "minic/Transforms/Passes.h"

#include <algorithm>

namespace minic {

/// The user asks for a library's product.
static bool isLibrarys(const RegionLoops &region, const PassContext &context) {
  return context.matmul == MatmulProvider::CublasLt && hasMatmul(region.ops);
}

/// Where the region's schedule is to come from: the text, the tuned one that fits best, or the cost model.
static ScheduleOrigin originOf(const Operation &fusion, const RegionLoops &region, const Function &function,
                               const PassContext &context) {
  auto whyUnfit = [&](const RecordAttr &record) -> std::string {
    if (fusion.attr("schedule"))
      return "the region has a schedule of its own";
    auto schedule = Schedule::parse(record, region.space.rank());
    if (!schedule)
      return schedule.errors().front().message;
    if (context.matmul == MatmulProvider::Generated && schedule->isLibrary())
      return "products are generated, by --matmul=generated";
    if (isLibrarys(region, context) && !schedule->isLibrary())
      return "products are cuBLASLt's, by --matmul=cublaslt";
    return minic::whyUnfit(*schedule, region, context.target, context.exact()).value_or("");
  };
  ScheduleOrigin origin;
  if (!context.eager)
    origin =
        context.schedules.take(RegionKey::of(fusion), function.facts, context.module.target, context.module.numerics, whyUnfit);
  if (fusion.attr("schedule"))
    origin.kind = ScheduleOrigin::Written;
  else if (isLibrarys(region, context))
    origin.kind = ScheduleOrigin::Asked;
  return origin;
}

namespace {

/// What the pass's options ask of schedules: `bm = 64`.
class AskedFields {
public:
  explicit AskedFields(const PassContext &context) : context(context), fields(context.step->given), used(fields.size()) {}

  /// `own` with the fields that are asked for, as far as schedules of its family have them; or where its other fields do not suit
  /// them the nearest schedule of the region with these fields that may run it.
  Expected<Schedule> apply(const Schedule &own, const RegionLoops &region, SourceLoc loc) {
    std::vector<const Field *> asked;
    for (size_t i = 0; i < fields.size(); ++i)
      if (isOf(own.family, fields[i].first)) {
        asked.push_back(&fields[i]);
        used[i] = true;
      }
    if (asked.empty())
      return own;
    std::string why;
    std::vector<RecordAttr> candidates = withUnit(own.toAttr());
    for (const Schedule &near : scheduleSpace(region, context.target, context.exact()))
      if (near.family == own.family)
        candidates.push_back(near.toAttr());
    for (RecordAttr &candidate : candidates) {
      for (const Field *field : asked)
        set(candidate, *field);
      auto schedule = Schedule::parse(candidate, region.space.rank());
      auto unfit = schedule ? whyUnfit(*schedule, region, context.target, context.exact()) : schedule.errors().front().message;
      if (!unfit)
        return schedule;
      if (why.empty())
        why = *unfit;
    }
    return Diagnostic{.code = ErrorCode::NoSchedule,
                      .message = "no schedule of this region has what choose-schedule{...} asks for: " + why,
                      .loc = loc,
                      .fix = "ask for less, or write the schedule on the region: minic compile --emit=fused shows it"};
  }

  /// The first field that no region's schedule has, if there is any.
  const std::string_view *unused() const {
    for (size_t i = 0; i < fields.size(); ++i)
      if (!used[i])
        return &fields[i].first;
    return nullptr;
  }

private:
  using Field = std::pair<std::string_view, std::string>;

  static bool isOf(Schedule::Family family, std::string_view field) {
    if (family == Schedule::Family::Library)
      return false;
    bool isRows = field == "cluster" || field == "resident";
    return field == "vec" || isRows == (family == Schedule::Family::Rows);
  }
  /// What a field says that does not stand there.
  static std::string leftOut(std::string_view field) { return field == "unit" ? "fma" : field == "stages" ? "0" : "1"; }

  /// The schedule for the unit that is asked for, if any: in all ways in which the warps of `mma` can share a tile.
  std::vector<RecordAttr> withUnit(RecordAttr record) const {
    auto unit = std::ranges::find(fields, "unit", &Field::first);
    const Attribute *own = record.find("unit");
    if (record.name != "matmul" || unit == fields.end() || unit->second == (own ? own->str() : "fma") || unit->second == "fma")
      return {record};
    std::erase_if(record.fields,
                  [](const auto &field) { return field.first == "warps" || field.first == "lanes" || field.first == "vec"; });
    if (unit->second == "wgmma")
      return {record};
    std::vector<RecordAttr> ways;
    constexpr std::pair<int64_t, int64_t> shares[] = {{2, 4}, {4, 2}, {2, 2}, {1, 4}, {4, 1}, {1, 2}, {2, 1}, {1, 1}};
    for (auto [rows, columns] : shares) {
      ways.push_back(record);
      ways.back().fields.emplace_back("warps", Attribute::ints({rows, columns}));
    }
    return ways;
  }

  static void set(RecordAttr &record, const Field &field) {
    std::erase_if(record.fields, [&](const auto &each) { return each.first == field.first; });
    if (field.second != leftOut(field.first))
      record.fields.emplace_back(field.first, *parseAttribute(field.second));
  }

  const PassContext &context;
  const std::vector<Field> &fields;
  std::vector<bool> used;
};

} // namespace

Expected<void> passes::chooseSchedule(Function &function, PassContext &context) {
  Diagnostics errors;
  AskedFields asked(context);
  for (Operation &op : function.body()) {
    if (!op.is(OpKind::Fusion))
      continue;
    auto region = RegionLoops::of(op);
    if (!region) {
      errors.push_back(region.errors().front());
      continue;
    }
    ScheduleOrigin origin = originOf(op, *region, function, context);
    if (context.report)
      context.report->push_back(origin);
    if (const Attribute *given = op.attr("schedule")) {
      auto schedule = Schedule::parse(*given->asRecord(), region->space.rank());
      if (!schedule) {
        errors.push_back(schedule.errors().front());
        errors.back().loc = op.loc();
      }
      continue;
    }
    if (origin.kind == ScheduleOrigin::Asked) {
      Schedule library = Schedule::library(region->space.rank());
      if (auto why = whyUnfit(library, *region, context.target, context.exact()))
        errors.push_back({.code = ErrorCode::NoSchedule,
                          .message = *why,
                          .loc = op.loc(),
                          .fix = "compile with --matmul=generated, or with auto, which is cuBLASLt's where tuning found that"});
      op.setAttr("schedule", library.toAttr());
      continue;
    }
    auto schedule = origin.kind == ScheduleOrigin::Tuned
                        ? std::optional(*Schedule::parse(origin.entry->best, region->space.rank()))
                        : minic::chooseSchedule(region->space, region->ops, context.target, context.exact());
    if (!schedule) {
      errors.push_back(
          {.code = ErrorCode::NoSchedule,
           .message = "no schedule of " + std::string(context.target.name) + " runs this region",
           .loc = op.loc(),
           .fix =
               "split the region: reductions along different axes need one each, but for short rows of a product on tensor cores"});
      continue;
    }
    auto suited = asked.apply(*schedule, *region, op.loc());
    if (suited)
      op.setAttr("schedule", suited->toAttr());
    else
      errors.push_back(suited.errors().front());
  }
  if (const std::string_view *field = asked.unused(); field && errors.empty())
    errors.push_back({.code = ErrorCode::NoSchedule,
                      .message = "no region of @" + function.name + " has a schedule with the field '" + std::string(*field) +
                                 "', which choose-schedule{...} asks for",
                      .loc = function.loc,
                      .fix = "drop it; minic compile --emit=fused shows the schedules"});
  if (!errors.empty())
    return errors;
  return {};
}

} // namespace minic
