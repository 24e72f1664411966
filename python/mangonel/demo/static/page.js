// What every page does: notice that the websession was ended, by any browser or process.
import { follow } from "./socket.js";

follow("/live/session", { frame() {}, state() {} });
