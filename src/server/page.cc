#include "server/page.h"

#include "base/sha256.h"

namespace pagoda::server {
namespace {

std::string_view type_of(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> kTypes[] = {
      {".html", "text/html; charset=utf-8"},         {".js", "text/javascript; charset=utf-8"},
      {".css", "text/css; charset=utf-8"},           {".svg", "image/svg+xml"},
      {".webmanifest", "application/manifest+json"},
  };
  for (const auto& [ending, type] : kTypes) {
    if (name.ends_with(ending)) return type;
  }
  return "application/octet-stream";
}

constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; manifest-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types "
    "'none'";

}  // namespace

Page::Page() {
  for (const PageFile& file : page_files()) {
    const std::string etag = "\"" + to_hex(sha256(file.text)).substr(0, 24) + "\"";
    entries_["/" + std::string(file.name)] = {.file = &file, .etag = etag};
    if (file.name == "index.html") entries_["/"] = {.file = &file, .etag = etag};
  }
}

const Page::Entry* Page::find(std::string_view path) const {
  const auto at = entries_.find(std::string(path));
  return at == entries_.end() ? nullptr : &at->second;
}

http::Response Page::get(const http::Request& request) const {
  const Entry& entry = *find(request.path);
  http::Response out;
  out.headers = {{"etag", entry.etag},
                 {"cache-control", "no-cache"},
                 {"content-security-policy", kPolicy},
                 {"referrer-policy", "no-referrer"},
                 {"x-frame-options", "DENY"}};
  const std::string* const known = request.header("if-none-match");
  if (known != nullptr && known->find(entry.etag) != std::string::npos) {
    out.status = 304;
    return out;
  }
  out.content_type = type_of(entry.file->name);
  out.body = entry.file->text;
  return out;
}

}  // namespace pagoda::server
