import { modKey } from "../shortcuts.ts";
import { navigation } from "../screens.ts";
import { Overlay } from "./overlay.tsx";

/** All keyboard shortcuts. */
export function Help({ close }: { readonly close: () => void }) {
  const go = navigation.flatMap(({ key, title }) =>
    key === undefined ? [] : [[["g", key], title] as const],
  );
  const groups = [
    { title: "Go to", keys: go },
    {
      title: "Everywhere",
      keys: [
        [[modKey, "K"], "Go to a queue, kind, job"],
        [["g", "p"], "Pause or resume updates"],
        [["?"], "This list"],
        [["Esc"], "Close what is open"],
      ] as const,
    },
    {
      title: "In lists",
      keys: [
        [["j"], "Next row"],
        [["k"], "Row before"],
        [["Enter"], "Open the row"],
        [["x"], "Select the row"],
      ] as const,
    },
  ];
  return (
    <Overlay label="Keys" close={close}>
      <div className="help">
        {groups.map((group) => (
          <section key={group.title}>
            <h2>{group.title}</h2>
            <dl>
              {group.keys.map(([keys, what]) => (
                <div key={what}>
                  <dt>
                    {keys.map((key) => (
                      <kbd key={key}>{key}</kbd>
                    ))}
                  </dt>
                  <dd>{what}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
    </Overlay>
  );
}
