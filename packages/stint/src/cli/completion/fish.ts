import type { Flag, Place } from "./tree.ts";

export function fishScript(places: readonly Place[]): string {
  const below = places.filter(({ path }) => path !== "").map(({ path }) => path);
  const lines = places.flatMap(({ path, words, options, source }) => {
    const here = `complete -c stint -n '__stint_at "${path}"'`;
    return [
      ...words.map(({ word, about }) => `${here} -f -a ${word} -d '${about}'`),
      ...(source === undefined ? [] : [`${here} -f -a '(__stint_live ${source})'`]),
      ...options.map(
        (option) => `${here} -l ${option.word.replace(/^--/, "")}${valueOf(option)} -d '${option.about}'`,
      ),
    ];
  });
  return `# Completion of stint for fish. Write it to ~/.config/fish/conf.d/stint.fish
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
# Values that stint prints. It ends within a second and prints nothing if the database is away.
function __stint_live
    set -l line (commandline -opc)
    set -l cli $line[1]
    set -q __stint_behind_npx; and set cli (__stint_local)
    type -q -- $cli; or return
    $cli complete-values $argv[1] -- $line[2..-1] </dev/null 2>/dev/null
end
# The stint of this project: the one that npx would run, without the time that npx takes.
function __stint_local
    set -l at $PWD
    while test -n "$at"; and not test -x $at/node_modules/.bin/stint
        set at (string replace -r '/[^/]*$' '' -- $at)
    end
    echo $at/node_modules/.bin/stint
end
# The last of several values, separated by commas, behind those that are there.
function __stint_listed
    set -l token (string replace -r -- '^--[^=]*=' '' (commandline -ct))
    set -l head (string match -r -- '^.*,' $token)
    for value in $argv
        echo "$head$value"
    end
end
# The same behind npx.
function __stint_npx
    set -g __stint_behind_npx 1
    complete -C (string replace -r -- '^\\s*npx\\s+' '' (commandline -cp))
    set -e __stint_behind_npx
end
complete -c npx -n 'test (count (commandline -opc)) -ge 2; and test (commandline -opc)[2] = stint' -f -a '(__stint_npx)'
${lines.join("\n")}
`;
}

function valueOf({ takesValue, values, source, isList }: Flag): string {
  if (source !== undefined) {
    const live = `(__stint_live ${source})`;
    return ` -x -a '${isList ? `(__stint_listed ${live})` : live}'`;
  }
  if (values.length > 0) {
    const words = values.join(" ");
    return ` -x -a '${isList ? `(__stint_listed ${words})` : words}'`;
  }
  return takesValue ? " -r" : "";
}
