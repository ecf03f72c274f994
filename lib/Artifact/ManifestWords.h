// The words of an artifact's manifest that stand for kinds.
#pragma once

#include "minic/Artifact/Artifact.h"

#include <string_view>
#include <utility>

namespace minic {

inline constexpr std::pair<std::string_view, PlanStep::Kind> stepWords[] = {{"alloc", PlanStep::Kind::Alloc},
                                                                            {"view", PlanStep::Kind::View},
                                                                            {"copy", PlanStep::Kind::Copy},
                                                                            {"constant", PlanStep::Kind::Constant},
                                                                            {"launch", PlanStep::Kind::Launch}};

} // namespace minic
