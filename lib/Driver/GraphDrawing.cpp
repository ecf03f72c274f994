#include "GraphDrawing.h"

#include "minic/Transforms/Analysis/IterationSpace.h"

#include <algorithm>
#include <map>

namespace minic {
namespace {

std::string nameOf(const Value &value) { return value.name().empty() ? "" : "%" + value.name(); }

std::string labelOf(const Operation &op) {
  std::string label(op.info().name);
  if (const auto &word = op.info().word)
    if (const Attribute *attr = op.attr(word->name))
      label += " " + attr->str();
  constexpr size_t mostLetters = 24; // Of a table.
  return label.size() > mostLetters ? label.substr(0, mostLetters) + "..." : label;
}

class Drawer {
public:
  explicit Drawer(const FusionReport *report) : report(report) {}

  GraphDrawing run(const Function &graph) {
    for (const Value *param : graph.params())
      makers[param] = add({.label = "input", .name = nameOf(*param), .type = param->type().str(), .loc = graph.loc});
    for (Operation &op : graph.body()) {
      if (op.is(OpKind::Return)) {
        for (unsigned i = 0; i < op.numOperands(); ++i)
          connect(op.operand(i),
                  add({.label = "result", .name = graph.resultNames[i], .type = op.operand(i)->type().str(), .loc = op.loc()}));
      } else if (op.is(OpKind::Fusion)) {
        drawRegion(graph, op);
      } else {
        draw(op, -1);
      }
    }
    return std::move(drawing);
  }

private:
  int add(DrawnOp op) {
    drawing.ops.push_back(std::move(op));
    return int(drawing.ops.size()) - 1;
  }

  void draw(Operation &op, int region) {
    int number = add({.label = labelOf(op),
                      .name = op.numResults() ? nameOf(*op.result()) : "",
                      .type = op.numResults() ? op.result()->type().str() : "",
                      .loc = op.loc(),
                      .region = region,
                      .isFree = isFreeInRegion(op) || op.is(OpKind::Reshape)});
    for (const Value *operand : op.operands())
      connect(operand, number);
    for (const Value *result : op.results())
      makers[result] = number;
  }

  /// Arguments of a region are the operands of its fusion, and what it yields its results.
  void drawRegion(const Function &graph, Operation &fusion) {
    int region = int(drawing.regions.size());
    drawing.regions.push_back(graph.name + "." + fusion.result()->name());
    Block &body = fusion.region();
    for (unsigned i = 0; i < fusion.numOperands(); ++i)
      standsFor[body.argument(i)] = fusion.operand(i);
    for (Operation &op : body) {
      if (!op.info().terminator) {
        draw(op, region);
        continue;
      }
      for (unsigned i = 0; i < op.numOperands(); ++i)
        standsFor[fusion.result(i)] = op.operand(i);
    }
  }

  void connect(const Value *value, int to) {
    for (auto same = standsFor.find(value); same != standsFor.end(); same = standsFor.find(value))
      value = same->second;
    auto maker = makers.find(value);
    if (maker == makers.end())
      return;
    const DrawnOp &from = drawing.ops[size_t(maker->second)], &reader = drawing.ops[size_t(to)];
    DrawnEdge edge{.from = maker->second,
                   .to = to,
                   .value = nameOf(*value),
                   .type = value->type().str(),
                   .bytes = value->type().numElements() * DimExpr(dtypeBytes(value->type().dtype())),
                   .inMemory = from.region < 0 || from.region != reader.region};
    for (const DrawnEdge &other : drawing.edges)
      if (other.from == edge.from && other.to == edge.to && other.value == edge.value)
        return; // Read twice.
    drawing.edges.push_back(std::move(edge));
    if (report)
      drawing.edges.back().decision = decisionOf(maker->second, to);
  }

  /// What was said of an op and of the one that computes what it reads, perhaps through ops that are free.
  const FusionEdge *decisionOf(int from, int to) const {
    const DrawnOp &source = sourceOf(from), &reader = drawing.ops[size_t(to)];
    auto said = std::ranges::find_if(report->edges, [&](const FusionEdge &edge) {
      return edge.fromLoc == source.loc && edge.toLoc == reader.loc && edge.from == source.name &&
             (reader.name.empty() || edge.to == reader.name);
    });
    return said == report->edges.end() ? nullptr : &*said;
  }

  /// The op that computes what a free one reads.
  const DrawnOp &sourceOf(int op) const {
    while (drawing.ops[size_t(op)].isFree) {
      auto edge = std::ranges::find_if(drawing.edges, [&](const DrawnEdge &edge) { return edge.to == op; });
      if (edge == drawing.edges.end())
        break;
      op = edge->from;
    }
    return drawing.ops[size_t(op)];
  }

  const FusionReport *report;
  GraphDrawing drawing;
  std::map<const Value *, int> makers;              // Looked up only.
  std::map<const Value *, const Value *> standsFor; // Looked up only.
};

} // namespace

GraphDrawing drawGraph(const Function &graph, const FusionReport *report) { return Drawer(report).run(graph); }

} // namespace minic
