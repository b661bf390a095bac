/** The page: loads the node's data and the sign-in of this tab, then renders. */
import { render } from "preact";
import { claimDevice } from "./model/device.js";
import { remembered } from "./model/identity.js";
import { Route } from "./model/route.js";
import { askNode } from "./model/server.js";
import { Theme } from "./model/theme.js";
import "./style/app.css";
import { App } from "./view/app.js";

const target = document.getElementById("app");
if (target === null) throw new Error("the page has no place for the application");
const [theme, route] = [new Theme(), new Route()];
const [node, device_id] = await Promise.all([askNode().catch(() => undefined), claimDevice()]);
// Only a development server signs in the user whom a link names.
const guest = node?.sign_in === "name" ? route.takeGuest() : undefined;
const signIn = guest === undefined ? remembered() : { name: guest };
render(
  <App theme={theme} route={route} node={node} device_id={device_id} signIn={signIn} />,
  target,
);
