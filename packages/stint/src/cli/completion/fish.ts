import type { Place } from "./tree.ts";

export function fishScript(places: readonly Place[]): string {
  const below = places.filter(({ path }) => path !== "").map(({ path }) => path);
  const lines = places.flatMap(({ path, words, options }) => {
    const here = `complete -c stint -n '__stint_at "${path}"'`;
    return [
      ...words.map(({ word, about }) => `${here} -f -a ${word} -d '${about}'`),
      ...options.map(({ word, about, takesValue, values }) => {
        const value = values.length > 0 ? ` -x -a '${values.join(" ")}'` : takesValue ? " -r" : "";
        return `${here} -l ${word.replace(/^--/, "")}${value} -d '${about}'`;
      }),
    ];
  });
  return `# Completion of stint for fish. Write it to ~/.config/fish/completions/stint.fish
function __stint_at
    set -l at ""
    for word in (commandline -opc)[2..-1]
        switch "$at/$word"
            case ${below.join(" ")}
                set at "$at/$word"
        end
    end
    test "$at" = "$argv[1]"
end
${lines.join("\n")}
`;
}
