// A WebSocket that comes back by itself, with the position of the last frame, so that nothing is missed or doubled.

const FIRST_PAUSE = 250;
const LONGEST_PAUSE = 5000;
// Frames that are taken in before the server is told that more may come.
const GRANT = 8;
// By this code the server says that the login has ended.
const ENDED = 4401;

/**
 * Follow a stream of frames.
 *
 * @param {string} path of the WebSocket.
 * @param {{frame: (frame: object) => void, state: (state: string) => void}} told what arrives, and how the line is.
 */
export function follow(path, told) {
  let position = null;
  let pause = FIRST_PAUSE;

  const connect = () => {
    const url = new URL(path, location.href);
    url.protocol = url.protocol.replace("http", "ws");
    const socket = new WebSocket(url);
    let taken = 0;

    socket.addEventListener("open", () => socket.send(JSON.stringify({ after: position })));
    socket.addEventListener("message", (event) => {
      const frame = JSON.parse(event.data);
      told.frame(frame);
      // Noted after the frame was handled: if an error comes before, the frame is sent again.
      position = frame.position ?? position;
      pause = FIRST_PAUSE;
      told.state("live");
      taken += 1;
      if (taken === GRANT) {
        socket.send(JSON.stringify({ credit: taken }));
        taken = 0;
      }
    });
    socket.addEventListener("close", (event) => {
      if (event.code === ENDED) {
        told.state("ended");
        location.assign(`/login?next=${encodeURIComponent(location.pathname)}`);
        return;
      }
      told.state("reconnecting");
      // A share of chance, or all browsers would come back in the same moment.
      setTimeout(connect, pause * (0.5 + Math.random() / 2));
      pause = Math.min(pause * 2, LONGEST_PAUSE);
    });
  };
  connect();
}
