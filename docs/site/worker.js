// Search on pages that are opened as files: browsers start no workers there, so a hidden frame
// does the work. It has the two functions that a worker's script calls.
"use strict";

if (location.protocol === "file:")
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => this.receive(data);
      const script = inside.document.createElement("script");
      script.src = String(url);
      this.ready = new Promise((resolve, reject) => {
        script.onload = resolve;
        script.onerror = () => reject(new Error(`${url} cannot be loaded`));
      });
      this.ready.catch((error) => this.onerror?.(new ErrorEvent("error", { error })));
      inside.document.body.append(script);
    }

    receive(data) {
      const event = new MessageEvent("message", { data: structuredClone(data) });
      this.dispatchEvent(event);
      this.onmessage?.(event);
    }

    postMessage(data) {
      const inside = this.frame.contentWindow;
      const copy = { data: structuredClone(data) }; // as of this moment, as a worker gets it
      this.ready.then(() => inside.dispatchEvent(new inside.MessageEvent("message", copy)));
    }

    terminate() {
      this.frame.remove();
    }
  };
