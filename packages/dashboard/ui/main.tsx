import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import "./theme.css";
import "./base.css";
import { startLive } from "./live.ts";
import { createQueryClient } from "./queries.ts";
import { createAppRouter } from "./router.tsx";
import { startTheme } from "./theme.ts";

startTheme();
const client = createQueryClient();
const router = createAppRouter();
startLive(client);

const root = document.getElementById("root");
if (root === null) throw new Error("The page has no element with the id root.");
createRoot(root).render(
  <StrictMode>
    <QueryClientProvider client={client}>
      <RouterProvider router={router} />
    </QueryClientProvider>
  </StrictMode>,
);
