#include "server/generate.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>

namespace pagoda::server {
namespace {

// A client that sends a large body and leaves must not leave it in the line of those that wait to be read.
TEST(GenerateAnswer, WhatNobodyWaitsForIsDroppedBeforeItsTurn) {
  std::promise<void> release;
  Metrics metrics;
  Workers workers(1);
  workers.run(Workers::Size::kLarge, [&] { release.get_future().wait(); });
  const auto body = std::make_shared<std::string>(1 << 20, 'x');
  bool ran = false;
  auto answer = std::make_unique<GenerateAnswer>(
      AnswerContext{.model = Model(nullptr), .head = {}, .metrics = &metrics},
      [body, &ran](const std::atomic<bool>&) -> Outcome {
        ran = true;
        return http::Response{};
      },
      workers, Workers::Size::kLarge);
  EXPECT_GT(body.use_count(), 1);
  answer.reset();
  EXPECT_EQ(body.use_count(), 1);
  std::promise<void> after;
  workers.run(Workers::Size::kLarge, [&] { after.set_value(); });
  release.set_value();
  after.get_future().wait();
  EXPECT_FALSE(ran);
}

}  // namespace
}  // namespace pagoda::server
