"use strict";
// The live page: the library walks at the server, and sends what happens.
(() => {
  let linked = View.fromLink(location.hash);
  const send = async (command) => {
    const answer = await fetch("do", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(command) });
    return answer.json();
  };
  View.start(send);
  const events = new EventSource("events");
  let lost = false;
  events.addEventListener("hello", (event) => {
    if (lost) { lost = false; View.message(""); }
    View.begin({ ...JSON.parse(event.data), linked: true });
    if (linked) {  // a link that reproduces a view
      const { speed, ...command } = linked;
      linked = null;
      send({ do: "speed", speed }).then(() => send(command)).then((answer) => { if (answer.error) View.message(`The link does not fit this page: ${answer.error}`); });
    }
  });
  events.addEventListener("frame", (event) => View.frame(JSON.parse(event.data)));
  events.addEventListener("error", () => {
    lost = true;
    View.message("The server does not answer. Start it again with the same command; this page then goes on.");
  });
})();
