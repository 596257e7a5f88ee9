import { spawnSync } from "node:child_process";
import { expect, test } from "vitest";
import { stint } from "./support.ts";

async function scriptFor(shell: string): Promise<string> {
  const { code, stdout } = await stint(["completion", shell]);
  expect(code).toBe(0);
  return stdout;
}

/** What a real bash offers after this command line. */
function offered(script: string, ...words: readonly string[]): string[] {
  const { stdout, stderr, status } = spawnSync("bash", ["--noprofile", "--norc", "-s", ...words], {
    encoding: "utf8",
    input: `${script}
      complete -p stint >&2
      COMP_WORDS=("$@")
      COMP_CWORD=$(($# - 1))
      _stint
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

test("what is offered is what --help has", async () => {
  const script = await scriptFor("bash");
  for (const command of ["migrate", "enqueue", "doctor", "top"]) {
    const { stdout } = await stint([command, "--help"]);
    const options = [...stdout.matchAll(/^ {2}(?:-\w, )?(--[\w-]+)/gm)].map((match) => match[1] ?? "");

    expect(offered(script, "stint", command, "--").sort()).toEqual(options.sort());
  }
});

test.each(["zsh", "fish"])("%s finds nothing wrong with its script", async (shell) => {
  const script = await scriptFor(shell);

  expect(script).toContain("--patience".replace("--", shell === "fish" ? "-l " : "--"));
  expect(script.split("'").length % 2).toBe(1);
  const { error, status, stderr } = spawnSync(shell, ["-n", "/dev/stdin"], {
    encoding: "utf8",
    input: script,
  });
  // Where the shell is not installed, only the quotes are counted.
  if (error !== undefined) return;
  expect(stderr).toBe("");
  expect(status).toBe(0);
});

test("a shell that is not known is wrong usage, and the known ones are named", async () => {
  expect(await stint(["completion", "tcsh"])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("bash, zsh, fish"),
  });
});
