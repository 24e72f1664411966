// What every page does: notice that the websession has ended, wherever somebody ended it.
import { follow } from "./socket.js";

follow("/live/session", { frame() {}, state() {} });
