import type { Place } from "./tree.ts";

export function bashScript(places: readonly Place[]): string {
  const below = places.filter(({ path }) => path !== "").map(({ path }) => path);
  const cases = places.map(
    ({ path, words, options }) =>
      `    "${path}") words="${[...words, ...options].map(({ word }) => word).join(" ")}" ;;`,
  );
  return `# Completion of stint for bash. Once: eval "$(npx stint completion bash)"; for good, put that line into ~/.bashrc.
_stint() {
  local current="\${COMP_WORDS[COMP_CWORD]}" before="\${COMP_WORDS[COMP_CWORD-1]}" path="" words="" i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$path/\${COMP_WORDS[i]}" in
      ${below.join("|")}) path="$path/\${COMP_WORDS[i]}" ;;
    esac
  done
  case "$path $before" in
${valueCases(places).join("\n")}
  esac
  case "$path" in
${cases.join("\n")}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _stint stint
# The same behind npx. For other packages bash offers files, as it did.
_stint_npx() {
  COMPREPLY=()
  if ((COMP_CWORD > 1)) && [[ "\${COMP_WORDS[1]}" == stint ]]; then
    COMP_WORDS=("\${COMP_WORDS[@]:1}")
    COMP_CWORD=$((COMP_CWORD - 1))
    _stint
  fi
}
# A completion of npx that is there already stays.
complete -p npx >/dev/null 2>&1 || complete -o default -F _stint_npx npx
`;
}

/** After an option that takes a value come its values, or files where anything may stand. */
function valueCases(places: readonly Place[]): string[] {
  return places.flatMap(({ path, options }) => {
    const taking = options.filter((option) => option.takesValue);
    const choosing = taking.filter((option) => option.values.length > 0);
    const free = taking.filter((option) => option.values.length === 0);
    return [
      ...choosing.map(
        ({ word, values }) =>
          `    "${path} ${word}") COMPREPLY=($(compgen -W "${values.join(" ")}" -- "$current")); return ;;`,
      ),
      ...(free.length === 0
        ? []
        : [`    ${free.map(({ word }) => `"${path} ${word}"`).join("|")}) COMPREPLY=(); return ;;`]),
    ];
  });
}
