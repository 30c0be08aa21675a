import {App} from "./app.js";

await new App().start();
