// A parsed template. Nodes are plain; what `items`, `exprs` and `bodies` hold is said at each kind.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace pagoda::text::jinja {

enum class ExprKind : std::uint8_t {
  kConst,    ///< constant
  kName,     ///< name
  kTuple,    ///< items
  kList,     ///< items
  kDict,     ///< items: key, value, key, value ...
  kGetattr,  ///< items: owner; name: attribute
  kGetitem,  ///< items: owner, key (may be a kSlice)
  kSlice,    ///< items: start, stop, step; each may be null
  kCall,     ///< items: callee; arguments
  kFilter,   ///< items: value (null in a filter block); name; arguments
  kTest,     ///< items: value; name; arguments
  kCond,     ///< items: test, then, else (may be null)
  kAnd,      ///< items: left, right
  kOr,       ///< items: left, right
  kNot,      ///< items: operand
  kNeg,
  kPos,
  kBinary,   ///< items: left, right; one op
  kConcat,   ///< items
  kCompare,  ///< items: one more than ops
  kNsRef,    ///< name of the namespace; attribute
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct CallArguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr spread;        ///< *args
  ExprPtr named_spread;  ///< **kwargs
};

struct Expr {
  ExprKind kind = ExprKind::kConst;
  int line = 0;
  int height = 1;    ///< of the tree below; bounded, since evaluation and destruction recurse
  int name_id = -1;  ///< of kName and kNsRef, into Program::names
  std::string name;
  std::string attribute;
  Value constant;
  std::vector<ExprPtr> items;
  std::vector<std::string_view> ops;
  CallArguments arguments;
  const Builtin* builtin = nullptr;  ///< of kFilter and kTest; null if there is none of that name
};

enum class StmtKind : std::uint8_t {
  kOutput,       ///< exprs
  kIf,           ///< exprs: tests; bodies: one for each, and one more for else
  kFor,          ///< exprs: target, iterable, test (may be null); bodies: body, else (may be empty)
  kMacro,        ///< name, parameters; exprs: defaults of the last parameters; bodies: body
  kCallBlock,    ///< as kMacro, and `call`
  kFilterBlock,  ///< exprs: filter; bodies: body
  kSet,          ///< exprs: target, value
  kSetBlock,     ///< exprs: target, filter (may be null); bodies: body
  kWith,         ///< exprs: target, value, target, value ...; bodies: body
  kScope,        ///< bodies: body ({% generation %}, {% block %})
  kBreak,
  kContinue,
  kRefused,  ///< name: what to say when it is reached
};

struct Stmt;
using Body = std::vector<std::unique_ptr<Stmt>>;

struct Stmt {
  StmtKind kind = StmtKind::kOutput;
  int line = 0;
  int name_id = -1;
  std::string name;
  std::vector<ExprPtr> exprs;
  std::vector<Body> bodies;
  ExprPtr call;
  std::vector<std::pair<int, std::string>> parameters;
  bool recursive = false;
  bool reads_caller = false;  ///< of a macro: its body mentions `caller`, `kwargs`, `varargs`
  bool reads_kwargs = false;
  bool reads_varargs = false;
};

struct Program {
  explicit Program(std::string text, std::size_t heap_bytes) : source(std::move(text)), heap(heap_bytes) {}

  std::string source;
  Heap heap;  ///< of the constants
  Body body;
  std::vector<std::string> names;
  std::map<std::string, int, std::less<>> name_ids;
  std::set<int> loaded;  ///< names that some expression reads

  int intern(std::string_view name);
  Value constant(std::string_view text);
};

}  // namespace pagoda::text::jinja
