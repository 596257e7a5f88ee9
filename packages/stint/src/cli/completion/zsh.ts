import type { Flag, Place, Word } from "./tree.ts";

export function zshScript(places: readonly Place[]): string {
  const below = places.filter(({ path }) => path !== "").map(({ path }) => path);
  const cases = places.map(
    ({ path, words, options, source }) =>
      `    ("${path}")\n      found=(${described(words)})\n      flags=(${described(options)})${source === undefined ? "" : `\n      source=${source}`} ;;`,
  );
  const taking = places.flatMap(({ path, options }) =>
    options
      .filter((option) => option.takesValue)
      .map((option) => `    ("${path} ${option.word}") ${offer(option)}; return ;;`),
  );
  return `#compdef stint npx
# Completion of stint for zsh. Once: eval "$(npx stint completion zsh)"; for good, write it into a file _stint on your fpath.
_stint() {
  local at="" source="" cli="\${(Q)words[1]}" i before
  local -a found flags live earlier
  if [[ "$words[1]" == npx ]]; then
    # For other packages zsh offers what it did.
    if [[ "$words[2]" != stint || CURRENT -lt 3 ]]; then _default; return; fi
    shift words
    ((CURRENT--))
    _stint_local
  fi
  for ((i = 2; i < CURRENT; i++)); do
    case "$at/$words[i]" in
      (${below.join("|")}) at="$at/$words[i]" ;;
    esac
  done
  earlier=("\${(Q)words[2,CURRENT-1][@]}")
  before="$words[CURRENT-1]"
  if [[ "$words[CURRENT]" == --*=* ]] && compset -P '--[^=]#='; then before="\${words[CURRENT]%%=*}"; fi
  case "$at $before" in
${taking.join("\n")}
  esac
  case "$at" in
${cases.join("\n")}
  esac
  # An argument whose values the database or the config knows.
  if [[ -n "$source" && "$words[CURRENT]" != -* ]]; then
    _stint_live $source
    compadd -a live
  fi
  _describe -t commands command found
  _describe -t options option flags
}
# Values that stint prints. It ends within a second and prints nothing if the database is away.
_stint_live() {
  live=()
  whence -- "$cli" >/dev/null || return
  live=(\${(f)"$("$cli" complete-values $1 -- "\${earlier[@]}" </dev/null 2>/dev/null)"})
}
# The stint of this project: the one that npx would run, without the time that npx takes.
_stint_local() {
  local folder="$PWD"
  until [[ -x "$folder/node_modules/.bin/stint" || -z "$folder" ]]; do folder="\${folder%/*}"; done
  cli="$folder/node_modules/.bin/stint"
}
if [[ "$funcstack[1]" == "_stint" ]]; then
  _stint "$@"
else
  compdef _stint stint
  # An existing completion of npx is kept.
  (( $+_comps[npx] )) || compdef _stint npx
fi
`;
}

/** Of several comma-separated values, only the last is completed. */
function offer({ values, source, isList }: Flag): string {
  if (values.length === 0 && source === undefined) return "_files";
  const find = source === undefined ? `live=(${values.join(" ")})` : `_stint_live ${source}`;
  return `${isList ? "compset -P '*,'; " : ""}${find}; compadd -a live`;
}

function described(words: readonly Word[]): string {
  return words.map(({ word, about }) => `'${word}:${about}'`).join(" ");
}
