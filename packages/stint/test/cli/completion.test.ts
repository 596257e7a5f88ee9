import { spawnSync } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { testFolder } from "../support/folder.ts";
import { stint } from "./support.ts";

async function scriptFor(shell: string): Promise<string> {
  const { code, stdout } = await stint(["completion", shell]);
  expect(code).toBe(0);
  return stdout;
}

/** What a real bash offers after this command line. */
function offered(script: string, ...words: readonly string[]): string[] {
  const complete = words[0] === "npx" ? "_stint_npx" : "_stint";
  const { stdout, stderr, status } = spawnSync("bash", ["--noprofile", "--norc", "-s", ...words], {
    encoding: "utf8",
    input: `${script}
      complete -p stint >&2
      COMP_WORDS=("$@")
      COMP_CWORD=$(($# - 1))
      ${complete}
      printf '%s\\n' "\${COMPREPLY[@]}"
    `,
  });
  expect(stderr).toBe("complete -o default -F _stint stint\n");
  expect(status).toBe(0);
  return stdout.split("\n").filter((line) => line !== "");
}

test("bash completes commands, commands below commands, options and values", async () => {
  const script = await scriptFor("bash");

  expect(offered(script, "stint", "do")).toEqual(["doctor"]);
  expect(offered(script, "stint", "")).toEqual(
    expect.arrayContaining(["dev", "worker", "top", "help", "--json"]),
  );
  expect(offered(script, "stint", "jobs", "l")).toEqual(["list"]);
  expect(offered(script, "stint", "jobs", "list", "--sta")).toEqual(["--state"]);
  expect(offered(script, "stint", "--json", "dead", "replay", "--rea")).toEqual(["--reason"]);
  expect(offered(script, "stint", "completion", "")).toEqual(expect.arrayContaining(["bash", "zsh", "fish"]));
  // Anything may stand here; bash then offers files.
  expect(offered(script, "stint", "jobs", "list", "--kind", "")).toEqual([]);
  expect(offered(script, "stint", "jobs", "list", "no-such")).toEqual([]);
});

test("bash completes behind npx, and only what belongs to stint", async () => {
  const script = await scriptFor("bash");

  expect(offered(script, "npx", "stint", "do")).toEqual(["doctor"]);
  expect(offered(script, "npx", "stint", "jobs", "list", "--sta")).toEqual(["--state"]);
  expect(offered(script, "npx", "vitest", "do")).toEqual([]);
  expect(offered(script, "npx", "sti")).toEqual([]);
});

test("what is offered is what --help has", async () => {
  const script = await scriptFor("bash");
  for (const command of ["migrate", "enqueue", "doctor", "top"]) {
    const { stdout } = await stint([command, "--help"]);
    const options = [...stdout.matchAll(/^ {2}(?:-\w, )?(--[\w-]+)/gm)].map((match) => match[1] ?? "");

    expect(offered(script, "stint", command, "--").sort()).toEqual(options.sort());
  }
});

async function folderWith(files: Record<string, string>): Promise<string> {
  const folder = await testFolder();
  for (const [name, text] of Object.entries({ "a-file": "", ...files }))
    await writeFile(join(folder, name), text);
  return folder;
}

/** What a real fish offers after each of these command lines. */
async function offeredByFish(lines: readonly string[]): Promise<Record<string, string[]>> {
  const folder = await folderWith({ ".script": await scriptFor("fish") });
  const driver = `
    source .script
    for line in $argv
      echo "asked:$line"
      complete -C "$line"
    end`;
  return offers(
    spawnSync("fish", ["--no-config", "-c", driver, ...lines], { cwd: folder, encoding: "utf8" }),
  );
}

/** The same of a real zsh, in a terminal of its own: it completes nowhere else. */
async function offeredByZsh(lines: readonly string[]): Promise<Record<string, string[]>> {
  const setup = `
    PROMPT=
    autoload -Uz compinit && compinit -D -u
    source ./.script
    # Instead of being put on the screen, what is offered is told.
    compadd () {
      if [[ \${@[1,(i)(-|--)]} == *-(O|A|D)\\ * ]]; then builtin compadd "$@"; return $?; fi
      local -a hits
      builtin compadd -A hits "$@"
      print -rl -- "hit:"$^hits >&2
    }
    told () { print -r -- "told:"; comppostfuncs=(told) }
    comppostfuncs=(told)
    bindkey '^I' complete-word
    print "it is" "ready"`;
  const folder = await folderWith({ ".script": await scriptFor("zsh"), ".setup": setup });
  const driver = `
    zmodload zsh/zpty
    zpty shell zsh -f -i
    zpty -w shell "source ./.setup"
    while zpty -r shell line; do [[ $line == *"it is ready"* ]] && break; done
    for asked in "$@"; do
      print -r -- "asked:$asked"
      zpty -w -n shell "$asked"$'\\t'
      while zpty -r shell line; do
        print -r -- "$line"
        [[ $line == *told:* ]] && break
      done
      # Away with the line.
      zpty -w -n shell $'\\x15'
    done
    zpty -d shell`;
  return offers(
    spawnSync("zsh", ["-f", "-c", driver, "zsh", ...lines], {
      cwd: folder,
      encoding: "utf8",
      timeout: 60_000,
    }),
  );
}

/** By command line. fish writes a word and what it means in a line, zsh whatever is in its terminal. */
function offers({ stdout, status }: { stdout: string; status: number | null }): Record<string, string[]> {
  expect({ status, stdout }).toMatchObject({ status: 0 });
  const [, ...parts] = stdout.split("asked:");
  return Object.fromEntries(
    parts.map((part) => {
      const [line = "", ...words] = part.split(/\r?\n/);
      const found = words.flatMap((word) => {
        if (word.includes("hit:")) return [/hit:(.*)$/.exec(word)?.[1] ?? ""];
        return /^[\w-]+(\t|$)/.test(word) ? [word.split("\t")[0] ?? ""] : [];
      });
      return [line, found];
    }),
  );
}

const shells = { zsh: offeredByZsh, fish: offeredByFish };

for (const [shell, offeredBy] of Object.entries(shells)) {
  const isThere = spawnSync(shell, ["--version"]).error === undefined;
  if (!isThere) process.stderr.write(`There is no ${shell}: its completion is not tried.\n`);

  test.skipIf(!isThere)(
    `${shell} completes commands, commands below commands, options and values`,
    async () => {
      const top = "stint ";
      const expected: Record<string, string[]> = {
        "stint do": ["doctor"],
        "stint jobs l": ["list"],
        "stint jobs list --sta": ["--state"],
        "stint --json dead replay --rea": ["--reason"],
        "stint jobs list no-such": [],
      };
      const found = await offeredBy([
        ...Object.keys(expected),
        top,
        "stint completion ",
        "stint jobs list --kind ",
      ]);

      expect(found).toMatchObject(expected);
      expect(found[top]).toEqual(expect.arrayContaining(["dev", "worker", "top", "help"]));
      expect(found["stint completion "]?.toSorted()).toEqual(["bash", "fish", "zsh"]);
      // Anything may stand here: files are offered.
      expect(found["stint jobs list --kind "]).toEqual(["a-file"]);
    },
  );
}

test.each(["zsh", "fish"])(
  "the script for %s has every option, and its quotes come in pairs",
  async (shell) => {
    const script = await scriptFor(shell);

    expect(script).toContain("--patience".replace("--", shell === "fish" ? "-l " : "--"));
    expect(script.split("'").length % 2).toBe(1);
  },
);

test("a shell that is not known is wrong usage, and the known ones are named", async () => {
  expect(await stint(["completion", "tcsh"])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("bash, zsh, fish"),
  });
});
