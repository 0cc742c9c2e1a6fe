// The stream of changes. The browser connects again by itself and says what it has seen; where it gives up, we try again.

import { byId } from "./dom.js";

const AGAIN_MILLISECONDS = 3000;

export class Stream {
  constructor(onMessage, onLink) {
    this.onMessage = onMessage;
    this.onLink = onLink;
    this.seen = "";
    this.source = null;
    this.recovering = false;
  }

  async open() {
    await useTokenOfAddress();
    this.connect();
  }

  connect() {
    if (this.recovering) return; // it connects when it is done; a question that is open is not asked twice
    this.source?.close();
    const source = new EventSource(this.seen ? `api/events?seen=${encodeURIComponent(this.seen)}` : "api/events");
    this.source = source;
    for (const kind of ["state", "update"]) {
      source.addEventListener(kind, (event) => {
        this.seen = event.lastEventId;
        this.onMessage(kind, JSON.parse(event.data));
      });
    }
    source.addEventListener("open", () => this.onLink(true));
    source.addEventListener("error", () => {
      this.onLink(false);
      if (source.readyState === EventSource.CLOSED && this.source === source) this.recover();
    });
  }

  // The browser does not say why it gave up: ask.
  async recover() {
    this.source = null;
    this.recovering = true;
    try {
      const answer = await fetch("api/decisions/0");
      if (answer.status === 401) await askForToken();
      else await pause();
    } catch {
      await pause();
    }
    this.recovering = false;
    this.connect();
  }
}

const pause = () => new Promise((done) => setTimeout(done, AGAIN_MILLISECONDS));

async function sendToken(token) {
  const answer = await fetch("api/session", { method: "POST", headers: { Authorization: `Bearer ${token}` } });
  return answer.ok;
}

// A token behind the # of the address never reaches a server's log; it does not stay in the history either.
async function useTokenOfAddress() {
  const found = new URLSearchParams(location.hash.slice(1)).get("token");
  if (found === null) return;
  history.replaceState(null, "", location.pathname);
  await sendToken(found).catch(() => false);
}

function askForToken() {
  const dialog = byId("token-dialog");
  const field = byId("token");
  dialog.showModal();
  field.focus();
  return new Promise((done) => {
    const form = byId("token-form");
    const send = async (event) => {
      event.preventDefault();
      const ok = await sendToken(field.value.trim()).catch(() => false);
      byId("token-problem").textContent = ok ? "" : "That is not the token.";
      if (!ok) return;
      field.value = "";
      dialog.close();
      form.removeEventListener("submit", send);
      done();
    };
    form.addEventListener("submit", send);
    dialog.addEventListener("cancel", (event) => event.preventDefault());
  });
}
