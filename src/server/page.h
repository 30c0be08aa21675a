// The web page: files of web/, compiled in.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "server/http/message.h"

namespace pagoda::server {

/// One file of web/ by its path there.
struct PageFile {
  std::string_view name;
  std::string_view text;
};
std::span<const PageFile> page_files();

/// `/` is index.html; every other file has its own path. Browsers ask again each time and get 304 while it has not
/// changed. The content security policy admits nothing from elsewhere and nothing inline.
class Page {
 public:
  Page();

  bool has(std::string_view path) const { return find(path) != nullptr; }
  http::Response get(const http::Request& request) const;

 private:
  struct Entry {
    const PageFile* file = nullptr;
    std::string etag;
  };
  const Entry* find(std::string_view path) const;

  std::unordered_map<std::string, Entry> entries_;
};

}  // namespace pagoda::server
