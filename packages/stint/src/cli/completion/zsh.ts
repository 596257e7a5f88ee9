import type { Place, Word } from "./tree.ts";

export function zshScript(places: readonly Place[]): string {
  const below = places.filter(({ path }) => path !== "").map(({ path }) => path);
  const cases = places.map(
    ({ path, words, options }) =>
      `    ("${path}")\n      found=(${described(words)})\n      flags=(${described(options)}) ;;`,
  );
  const taking = places.flatMap(({ path, options }) =>
    options.filter((option) => option.takesValue).map(({ word }) => `"${path} ${word}"`),
  );
  return `#compdef stint
# Completion of stint for zsh. Once: eval "$(npx stint completion zsh)"; for good, write it into a file _stint on your fpath.
_stint() {
  local at="" i
  local -a found flags
  for ((i = 2; i < CURRENT; i++)); do
    case "$at/$words[i]" in
      (${below.join("|")}) at="$at/$words[i]" ;;
    esac
  done
  case "$at $words[CURRENT-1]" in
    (${taking.join("|")}) _files; return ;;
  esac
  case "$at" in
${cases.join("\n")}
  esac
  _describe -t commands command found
  _describe -t options option flags
}
if [[ "$funcstack[1]" == "_stint" ]]; then
  _stint "$@"
else
  compdef _stint stint
fi
`;
}

function described(words: readonly Word[]): string {
  return words.map(({ word, about }) => `'${word}:${about}'`).join(" ");
}
