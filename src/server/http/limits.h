// How much of what a client may send, and how long it may take.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace pagoda::server::http {

/// Defaults are those of nginx and Envoy where they agree (docs/serving.md).
struct Limits {
  std::size_t request_line_bytes = 8192;                ///< beyond: 414
  std::size_t header_bytes = 8192;                      ///< of one header; beyond: 431
  std::size_t headers_bytes = 32768;                    ///< of all; beyond: 431
  std::size_t num_headers = 100;                        ///< beyond: 431
  std::size_t body_bytes = 32u << 20;                   ///< beyond: 413
  std::size_t num_connections = 8192;                   ///< beyond: 503, and closed
  std::size_t all_bodies_bytes = std::size_t{1} << 30;  ///< of all requests that are being read; beyond: 503

  std::chrono::milliseconds header_time{10'000};      ///< from the first byte to the end of the headers; beyond: 408
  std::chrono::milliseconds body_time{30'000};        ///< without a byte of the body; beyond: 408
  std::chrono::milliseconds idle_time{75'000};        ///< between two requests; beyond: closed
  std::chrono::milliseconds write_time{60'000};       ///< for 64 KiB that the client does not take; beyond: closed
  std::chrono::milliseconds keep_alive_time{10'000};  ///< without data, a comment is sent in a stream
};

}  // namespace pagoda::server::http
