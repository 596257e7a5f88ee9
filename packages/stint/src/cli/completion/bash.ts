import type { Flag, Place } from "./tree.ts";

export function bashScript(places: readonly Place[]): string {
  const below = places.filter(({ path }) => path !== "").map(({ path }) => path);
  const cases = places.map(
    ({ path, words, options, source }) =>
      `    "${path}") words="${[...words, ...options].map(({ word }) => word).join(" ")}"${source === undefined ? "" : `; source=${source}`} ;;`,
  );
  return `# Completion of stint for bash. Once: eval "$(npx stint completion bash)"; for good, put that line into ~/.bashrc.
_stint() {
  # By the line, not by COMP_WORDS: bash breaks those at every colon, also within names and URLs.
  local line path="" words="" source="" before current i
  read -ra line <<<"\${COMP_LINE:0:COMP_POINT}"
  [[ "\${COMP_LINE:0:COMP_POINT}" == *[[:space:]] ]] && line+=("")
  local cli="\${line[0]}"
  if [[ "$1" == npx ]]; then
    line=("\${line[@]:1}")
    cli="$(_stint_local)"
  fi
  COMPREPLY=()
  local last=$((\${#line[@]} - 1))
  current="\${line[last]}"
  before="\${line[last-1]}"
  local -a earlier=("\${line[@]:1:last-1}")
  for ((i = 1; i < last; i++)); do
    case "$path/\${line[i]}" in
      ${below.join("|")}) path="$path/\${line[i]}" ;;
    esac
  done
  if [[ "$current" == --*=* ]]; then
    before="\${current%%=*}"
    current="\${current#*=}"
  fi
  case "$path $before" in
${valueCases(places).join("\n")}
  esac
  case "$path" in
${cases.join("\n")}
  esac
  # An argument whose values the database or the config knows.
  if [[ -n "$source" && "$current" != -* ]]; then
    words="$words $(_stint_live "$source")"
  fi
  _stint_offer "$words"
}
# Offers the words that begin as the current one does. bash replaces only what follows the last colon.
_stint_offer() {
  local head="$2"
  COMPREPLY=($(compgen -W "$1" -- "\${current#"$head"}"))
  COMPREPLY=("\${COMPREPLY[@]/#/$head}")
  if [[ "$current" == *:* && "$COMP_WORDBREAKS" == *:* ]]; then
    COMPREPLY=("\${COMPREPLY[@]#"\${current%"\${current##*:}"}"}")
  fi
}
# The same for the last of several values, separated by commas.
_stint_offer_list() {
  _stint_offer "$1" "\${current%"\${current##*,}"}"
}
# Values that stint prints. It ends within a second and prints nothing if the database is away.
_stint_live() {
  type "$cli" >/dev/null 2>&1 && "$cli" complete-values "$1" -- "\${earlier[@]}" </dev/null 2>/dev/null
}
# The stint of this project: the one that npx would run, without the time that npx takes.
_stint_local() {
  local at="$PWD"
  until [[ -x "$at/node_modules/.bin/stint" || -z "$at" ]]; do at="\${at%/*}"; done
  [[ -n "$at" ]] && printf '%s' "$at/node_modules/.bin/stint"
}
complete -o default -F _stint stint
# The same for \`npx stint\`. For other packages bash offers files, as by default.
_stint_npx() {
  local line
  read -ra line <<<"\${COMP_LINE:0:COMP_POINT}."
  COMPREPLY=()
  if ((\${#line[@]} > 2)) && [[ "\${line[1]}" == stint ]]; then _stint npx; fi
}
# An existing completion of npx is kept.
complete -p npx >/dev/null 2>&1 || complete -o default -F _stint_npx npx
`;
}

/** An option with a value is completed by its values, or by files if any text is allowed. */
function valueCases(places: readonly Place[]): string[] {
  return places.flatMap(({ path, options }) => {
    const taking = options.filter((option) => option.takesValue);
    const known = taking.filter((option) => isKnown(option));
    const free = taking.filter((option) => !isKnown(option));
    return [
      ...known.map((option) => `    "${path} ${option.word}") ${offer(option)}; return ;;`),
      ...(free.length === 0
        ? []
        : [`    ${free.map(({ word }) => `"${path} ${word}"`).join("|")}) COMPREPLY=(); return ;;`]),
    ];
  });
}

function isKnown({ values, source }: Flag): boolean {
  return values.length > 0 || source !== undefined;
}

function offer({ values, source, isList }: Flag): string {
  const words = source === undefined ? values.join(" ") : `$(_stint_live ${source})`;
  // Options with known values do not complete files.
  return `compopt +o default 2>/dev/null; _stint_offer${isList ? "_list" : ""} "${words}"`;
}
