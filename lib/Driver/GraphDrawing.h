// Ops and values of a graph as boxes and lines.
#pragma once

#include "minic/IR/IR.h"
#include "minic/Transforms/FusionReport.h"

#include <string>
#include <vector>

namespace minic {

struct DrawnOp {
  std::string label; ///< "reduce max", "input" or "result".
  std::string name;  ///< "%y"; may be empty.
  std::string type;  ///< Of the first result.
  SourceLoc loc;
  int region = -1;     ///< Of a graph at the fused level.
  bool isFree = false; ///< A constant, broadcast or view: nothing is computed.
};

struct DrawnEdge {
  int from, to; ///< Ops.
  std::string value, type;
  DimExpr bytes;
  bool inMemory = true; ///< The value goes from one kernel to another; else it is in registers or shared memory alone.
  const FusionEdge *decision = nullptr; ///< What fuse said of it, if anything.
};

struct GraphDrawing {
  std::vector<DrawnOp> ops;
  std::vector<DrawnEdge> edges;
  std::vector<std::string> regions; ///< Names: "softmax.y".
};

/// A graph at the graph or fused level. `report` (may be null) must outlive the drawing.
GraphDrawing drawGraph(const Function &graph, const FusionReport *report);

} // namespace minic
