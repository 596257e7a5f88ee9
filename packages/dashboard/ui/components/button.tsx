import type { ButtonHTMLAttributes } from "react";
import "./button.css";

type Props = ButtonHTMLAttributes<HTMLButtonElement> & {
  /** `quiet` for permanent controls, `danger` for actions that cannot be undone. */
  readonly look?: "plain" | "primary" | "danger" | "quiet";
  readonly small?: boolean;
  /** Why the button is disabled. It stays focusable, so that the reason can be read. */
  readonly because?: string | null | undefined;
};

export function Button({ look = "plain", small = false, because, className, onClick, ...rest }: Props) {
  const refused = because !== null && because !== undefined;
  return (
    <button
      type="button"
      {...rest}
      className={["button", look, small ? "small" : "", className ?? ""].join(" ").trim()}
      aria-disabled={refused || undefined}
      title={refused ? because : rest.title}
      onClick={refused ? (event) => event.preventDefault() : onClick}
    />
  );
}
