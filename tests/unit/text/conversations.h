// conversations.json: what the chat-template tests say to the templates.
#pragma once

#include <rapidjson/document.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <string>
#include <vector>

#include "unit/text/template_cases.h"

namespace pagoda::text::cases {

struct Conversation {
  std::string name;
  std::string messages;
  std::string tools;
  bool has_tools = false;
  std::string arguments = "{}";
  bool add_generation_prompt = true;
};

inline std::string json_text(const rapidjson::Value& value) {
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer> writer(buffer);
  value.Accept(writer);
  return buffer.GetString();
}

inline std::vector<Conversation> read_conversations() {
  rapidjson::Document document;
  document.Parse(read_all(golden_path("conversations.json")).c_str());
  std::vector<Conversation> out;
  if (!document.IsArray()) return out;
  for (const auto& item : document.GetArray()) {
    Conversation one;
    one.name = item["name"].GetString();
    one.messages = json_text(item["messages"]);
    one.has_tools = item.HasMember("tools");
    if (one.has_tools) one.tools = json_text(item["tools"]);
    if (item.HasMember("arguments")) one.arguments = json_text(item["arguments"]);
    if (item.HasMember("add_generation_prompt")) one.add_generation_prompt = item["add_generation_prompt"].GetBool();
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace pagoda::text::cases
