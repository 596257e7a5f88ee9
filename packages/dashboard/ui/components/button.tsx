import type { ButtonHTMLAttributes } from "react";
import "./button.css";

type Props = ButtonHTMLAttributes<HTMLButtonElement> & {
  /** `quiet` for what is always there, `danger` for what cannot be taken back. */
  readonly look?: "plain" | "primary" | "danger" | "quiet";
  readonly small?: boolean;
  /** Why it cannot be pressed now. It stays readable and focusable, so that the reason can be found. */
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
