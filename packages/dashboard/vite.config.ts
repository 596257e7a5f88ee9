import { fileURLToPath } from "node:url";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

export default defineConfig({
  root: fileURLToPath(new URL("ui", import.meta.url)),
  // Relative, so that it works under any path: the server says which by `<base href>`.
  base: "./",
  plugins: [react()],
  build: {
    // scripts/build-ui.mjs takes the files from here and packs them into one module.
    write: false,
    // The oldest that know `light-dark()`, which the theme is written in.
    target: ["chrome123", "firefox128", "safari17.5"],
    // A data: script or style would be refused by the page's own policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 900,
  },
});
