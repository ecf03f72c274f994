#include "Plot.h"

#include "Difference.h"

#include <algorithm>
#include <cmath>

namespace minic::cli {

namespace {

constexpr const char *colours[] = {"#5b8def", "#e08a3c", "#4fae74", "#b46bc4", "#d0545c"};
constexpr double left = 70, top = 48, plotHeight = 260, barWidth = 34, groupGap = 26, bottom = 44;

std::string escape(const std::string &text) {
  std::string out;
  for (char c : text)
    out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
  return out;
}

/// The next of 1, 2, 2.5, 5 times a power of ten.
double roundUp(double value) {
  double power = std::pow(10, std::floor(std::log10(value)));
  for (double step : {1.0, 2.0, 2.5, 5.0})
    if (step * power >= value)
      return step * power;
  return 10 * power;
}

std::string text(double x, double y, const char *anchor, const std::string &words, int size = 12) {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" text-anchor=\"" + anchor + "\" font-size=\"" +
         std::to_string(size) + "\">" + escape(words) + "</text>\n";
}

} // namespace

std::string renderSvg(const BarPlot &plot) {
  double groupWidth = barWidth * double(plot.series.size()) + groupGap, largest = 0;
  for (const std::vector<double> &series : plot.values)
    for (double value : series)
      largest = std::max(largest, value);
  double step = roundUp(std::max(largest, 1e-9) / 5), scale = plotHeight / (step * std::ceil(std::max(largest, 1e-9) / step));
  double plotWidth = std::max(groupWidth * double(plot.groups.size()), 320.0), width = left + plotWidth + 24;
  double base = top + plotHeight, height = base + bottom + 28;
  std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + number(width) + " " + number(height) +
                    "\" width=\"" + number(width) + "\" font-family=\"sans-serif\" fill=\"currentColor\">\n" +
                    "<style>svg { color: #222 } @media (prefers-color-scheme: dark) { svg { color: #ddd } }</style>\n" +
                    text(left, 22, "start", plot.title, 15) + text(left, 40, "start", plot.axis);
  for (double value = 0; value * scale <= plotHeight * 1.001; value += step) {
    double y = base - value * scale;
    svg += "<line x1=\"" + number(left) + "\" x2=\"" + number(left + plotWidth) + "\" y1=\"" + number(y) + "\" y2=\"" + number(y) +
           "\" stroke=\"currentColor\" stroke-opacity=\"" + (value == 0 ? "1" : "0.2") + "\"/>\n" +
           text(left - 6, y + 4, "end", number(value));
  }
  for (size_t g = 0; g < plot.groups.size(); ++g) {
    double x = left + groupWidth * double(g) + groupGap / 2;
    for (size_t s = 0; s < plot.series.size(); ++s, x += barWidth) {
      double tall = plot.values[s][g] * scale;
      svg += "<rect x=\"" + number(x) + "\" y=\"" + number(base - tall) + "\" width=\"" + number(barWidth - 4) + "\" height=\"" +
             number(tall) + "\" fill=\"" + colours[s % std::size(colours)] + "\"/>\n" +
             text(x + barWidth / 2 - 2, base - tall - 4, "middle", number(plot.values[s][g]), 10);
    }
    svg += text(left + groupWidth * (double(g) + 0.5), base + 18, "middle", plot.groups[g]);
  }
  double x = left;
  for (size_t s = 0; s < plot.series.size(); ++s) {
    svg += "<rect x=\"" + number(x) + "\" y=\"" + number(base + bottom - 8) + "\" width=\"12\" height=\"12\" fill=\"" +
           colours[s % std::size(colours)] + "\"/>\n" + text(x + 18, base + bottom + 2, "start", plot.series[s]);
    x += 40 + 8 * double(plot.series[s].size());
  }
  return svg + "</svg>\n";
}

} // namespace minic::cli
