// Colours for code: a scanner that knows comments, strings, numbers and keywords of a dozen families of languages. It
// is linear, keeps every character, and needs no grammar: unknown languages stay plain.

const words = (text) => new Set(text.trim().split(/\s+/));
const kCLike =
    `break case catch class const continue default do else enum export extends false final finally for if import
        in instanceof interface new null override package private protected public return static struct super switch
        this throw true try typedef typeof union using var void volatile while yield async await let of function`;

const kString = String.raw`"(?:[^"\\\n]|\\(?:[^]|$))*(?:"|$|(?=\n))`;
const kQuoted = String.raw`'(?:[^'\\\n]|\\(?:[^]|$))*(?:'|$|(?=\n))`;
const kCharacter = String.raw`'(?:[^'\\\n]|\\(?:u\{[\da-fA-F]{1,6}\}|[\da-fA-Fxu]{1,9}|[^]))'`;
const kNumber = String.raw`\b(?:0[xX][\da-fA-F_']+|0[bB][01_']+|\d[\d_']*(?:\.\d[\d_]*)?(?:[eE][+-]?\d+)?)\w*`;
const kWord = String.raw`[A-Za-z_$][\w$]*`;

/** Most words that something is done with are called; `before` and `after` are the few characters around the word. */
const isCall = (_, after) => after[0] === "(";

/** A family: what a comment, a string and a number look like, and which words are keywords. */
function family({
  comment,
  string = `${kString}|${kQuoted}`,
  number = kNumber,
  word = kWord,
  keywords = "",
  ignoreCase = false,
  isName = isCall
}) {
  const scanner = new RegExp(
      `(?<comment>${comment})|(?<string>${string})|(?<number>${number})|(?<word>${word})`, ignoreCase ? "gi" : "g");
  return {scanner, keywords: words(keywords), ignoreCase, isName};
}

const kSlashes = String.raw`\/\/[^\n]*|\/\*[^]*?(?:\*\/|$)`;
const kHash = String.raw`(?<![\w$&{])#[^\n]*`;

const kFamilies = {
  c: family({
    comment: `${kSlashes}|(?<=^|\\n)[ \\t]*#[a-z]+`,
    string: `R"\\((?:[^])*?(?:\\)"|$)|${kString}|${kCharacter}`,
    keywords: `${kCLike} auto bool char concept consteval constexpr constinit decltype delete double explicit extern
            float friend goto inline int long mutable namespace noexcept nullptr operator register requires short
            signed sizeof static_assert static_cast template typename unsigned virtual __global__ __device__
            __shared__ __host__ string decimal object foreach lock internal sealed readonly`,
  }),
  java: family({
    comment: kSlashes,
    keywords: `${kCLike} abstract boolean byte char double float implements int long native short synchronized throws
            transient record val fun when object companion data sealed suspend is as by init lateinit`
  }),
  javascript: family({
    comment: kSlashes,
    string: `${kString}|${kQuoted}|\`(?:[^\`\\\\]|\\\\(?:[^]|$))*(?:\`|$)`,
    keywords: `${kCLike} abstract any as boolean debugger declare delete from get implements keyof namespace never
            number readonly set string type undefined unknown with satisfies`,
  }),
  go: family({
    comment: kSlashes,
    string: `${kString}|${kQuoted}|\`[^\`]*(?:\`|$)`,
    keywords: `break case chan const continue default defer else fallthrough false for func go goto if import interface
            iota map nil package range return select struct switch true type var any bool byte error float32 float64
            int int32 int64 rune string uint uint8`
  }),
  rust: family({
    comment: kSlashes,
    string: `${kString}|${kCharacter}`,
    keywords: `as async await break const continue crate dyn else enum extern false fn for if impl in let loop match
            mod move mut pub ref return self Self static struct super trait true type unsafe use where while bool
            char f32 f64 i8 i16 i32 i64 isize str String u8 u16 u32 u64 usize Vec Option Result Some None Ok Err`
  }),
  swift: family({
    comment: kSlashes,
    keywords: `${kCLike} as defer extension fileprivate func guard init inout internal is lazy mutating nil open
            protocol repeat self Self some any rethrows subscript throws where weak actor`
  }),
  php: family({
    comment: `${kSlashes}|${kHash}`,
    keywords: `${kCLike} abstract and array as echo elseif endforeach endif fn foreach global implements isset match
            namespace or print readonly require trait unset use`
  }),
  python: family({
    comment: kHash,
    string: `[rbfuRBFU]{0,2}(?:"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|${kString}|${kQuoted})`,
    keywords: `and as assert async await break case class continue def del elif else except finally for from global if
            import in is lambda match nonlocal not or pass raise return try while with yield True False None self
            cls`,
  }),
  ruby: family({
    comment: kHash,
    keywords: `alias and begin break case class def do else elsif end ensure false for if in module next nil not or
            redo rescue retry return self super then true undef unless until when while yield require attr_accessor
            attr_reader puts`
  }),
  shell: family({
    comment: kHash,
    keywords: `if then else elif fi for in do done while until case esac function return exit export local set unset
            source sudo echo cd`,
  }),
  settings: family({
    comment: `${kHash}|(?<=^|\\n)[ \\t]*;[^\\n]*`,
    word: String.raw`[A-Za-z_][\w.-]*`,
    isName: (_, after) => /^\s*[:=]/.test(after),
    keywords: "true false null yes no on off FROM RUN CMD COPY ENV EXPOSE WORKDIR ENTRYPOINT USER ARG"
  }),
  json: family({comment: kSlashes, keywords: "true false null"}),
  sql: family({
    comment: String.raw`--[^\n]*|\/\*[^]*?(?:\*\/|$)`,
    ignoreCase: true,
    keywords: `select from where and or not in is null as join left right inner outer full on group by order having
            limit offset insert into values update set delete create table index view drop alter add primary key
            foreign references unique default check union all distinct case when then else end exists between like
            with count sum avg min max cast coalesce returning begin commit rollback int integer text varchar
            boolean date timestamp`,
  }),
  lua: family({
    comment: String.raw`--\[\[[^]*?(?:\]\]|$)|--[^\n]*`,
    keywords: `and break do else elseif end false for function goto if in local nil not or repeat return then true
            until while`
  }),
  haskell: family({
    comment: String.raw`--[^\n]*|\{-[^]*?(?:-\}|$)`,
    string: kString,
    keywords: `case class data default deriving do else forall if import in infix infixl infixr instance let module
            newtype of then type where`
  }),
  markup: family({
    comment: String.raw`<!--[^]*?(?:-->|$)`,
    number: "(?!)",
    word: String.raw`[A-Za-z][\w:.-]*`,
    isName: (before, after) => /<\/?$/.test(before) || after[0] === "="
  }),
  css: family({
    comment: String.raw`\/\*[^]*?(?:\*\/|$)`,
    number: String.raw`#[\da-fA-F]{3,8}\b|-?\d*\.?\d+(?:[a-z]+|%)?`,
    word: String.raw`[@-]?[A-Za-z_][\w-]*`,
    keywords: `@media @import @supports @keyframes @font-face @layer @container important inherit initial unset none
            auto`
  }),
};

const kAliases = {
  c: "c cpp c++ cc cxx h hpp cuda cu cs csharp objc glsl hlsl wgsl",
  java: "java kotlin kt scala groovy dart",
  javascript: "javascript js jsx mjs ts tsx typescript",
  go: "go golang",
  rust: "rust rs zig",
  swift: "swift",
  php: "php",
  python: "python py python3 mojo julia jl r perl pl",
  ruby: "ruby rb elixir ex crystal",
  shell: "sh bash shell zsh fish console powershell ps1",
  settings: `toml ini yaml yml cfg conf dockerfile docker makefile make cmake properties env nix hcl terraform`,
  json: "json json5 jsonc",
  sql: "sql sqlite postgresql mysql",
  lua: "lua",
  haskell: "haskell hs elm",
  markup: "html xml svg vue xhtml",
  css: "css scss less",
};
const kFamilyOf = new Map(Object.entries(kAliases).flatMap(
    ([name, aliases]) => aliases.split(/\s+/).map((alias) => [alias, kFamilies[name]])));
const kLongest = 65_536;

/** Pieces [kind or null, text] whose texts make up `text`; kinds are comment, string, number, keyword, name. */
export function highlight(text, language) {
  const known = kFamilyOf.get(language);
  if (!known || text.length > kLongest) return [[null, text]];
  const out = [];
  const put = (kind, piece) => {
    if (piece === "") return;
    if (out.at(-1)?.[0] === kind)
      out.at(-1)[1] += piece;
    else
      out.push([kind, piece]);
  };
  let at = 0;
  for (const match of text.matchAll(known.scanner)) {
    put(null, text.slice(at, match.index));
    at = match.index + match[0].length;
    const {comment, string, number, word} = match.groups;
    if (comment !== undefined)
      put("comment", comment);
    else if (string !== undefined)
      put("string", string);
    else if (number !== undefined)
      put("number", number);
    else if (known.keywords.has(known.ignoreCase ? word.toLowerCase() : word))
      put("keyword", word);
    else
      put(known.isName(text.slice(Math.max(0, match.index - 2), match.index), text.slice(at, at + 16)) ? "name" : null,
          word);
  }
  put(null, text.slice(at));
  return out;
}
