// Grouped bars as an SVG picture, readable on light and dark pages.
#pragma once

#include <string>
#include <vector>

namespace minic::cli {

struct BarPlot {
  std::string title, axis;                 ///< `axis` names the values and their unit.
  std::vector<std::string> groups;         ///< Along x.
  std::vector<std::string> series;         ///< A colour each.
  std::vector<std::vector<double>> values; ///< [series][group].
};
std::string renderSvg(const BarPlot &plot);

} // namespace minic::cli
