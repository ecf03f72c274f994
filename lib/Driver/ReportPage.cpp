#include "minic/Driver/ReportPage.h"

#include "minic/Support/Diagnostic.h"

#include <cerrno>
#include <cstring>
#include <map>

namespace minic {
namespace {

constexpr std::pair<std::string_view, std::string_view> files[] = {
#include "ReportFiles.inc"
};

std::string escapeHtml(std::string_view text) {
  std::string out;
  for (char c : text)
    switch (c) {
    case '&':
      out += "&amp;";
      break;
    case '<':
      out += "&lt;";
      break;
    case '>':
      out += "&gt;";
      break;
    case '"':
      out += "&quot;";
      break;
    case '\'':
      out += "&#39;";
      break;
    default:
      out += c;
    }
  return out;
}

/// `page.html` with other files where it says `{{name}}`, and the title.
std::string pageBegin(std::string_view title) {
  std::map<std::string_view, std::string_view> texts(std::begin(files), std::end(files));
  std::string escaped = escapeHtml(title), out;
  texts["title"] = escaped;
  std::string_view rest = texts.at("page.html");
  for (size_t mark; (mark = rest.find("{{")) != rest.npos;) {
    size_t end = rest.find("}}", mark);
    out.append(rest.substr(0, mark)).append(texts.at(rest.substr(mark + 2, end - mark - 2)));
    rest.remove_prefix(end + 2);
  }
  return out.append(rest);
}

} // namespace

Expected<ReportPage> ReportPage::create(const std::string &path, std::string_view title) {
  ReportPage page;
  page.path = path;
  page.file.reset(std::fopen(path.c_str(), "wb"));
  if (auto written = page.write(pageBegin(title)); !written)
    return written.takeErrors();
  return page;
}

Expected<void> ReportPage::add(std::string_view part, std::string_view json) {
  std::string text = "<script type=\"application/json\" data-part=\"" + std::string(part) + "\">";
  for (char c : json) // JSON has it in strings alone.
    if (c == '<')
      text += "\\u003c";
    else
      text += c;
  return write(text + "</script>\n");
}

Expected<void> ReportPage::write(std::string_view text) {
  if (file && std::fwrite(text.data(), 1, text.size(), file.get()) == text.size() && std::fflush(file.get()) == 0)
    return {};
  return Diagnostic{.code = ErrorCode::UnreadableFile, .message = "cannot write '" + path + "': " + std::strerror(errno)};
}

} // namespace minic
