#include "minic/Artifact/Artifact.h"

namespace minic {

std::string_view stepName(PlanStep::Kind kind) {
  switch (kind) {
  case PlanStep::Kind::Alloc:
    return "alloc";
  case PlanStep::Kind::View:
    return "view";
  case PlanStep::Kind::Copy:
    return "copy";
  case PlanStep::Kind::Constant:
    return "constant";
  case PlanStep::Kind::Launch:
    return "launch";
  case PlanStep::Kind::LibraryCall:
    return "library_call";
  }
  return "";
}

} // namespace minic
