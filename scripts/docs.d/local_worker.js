// Search in pages that are opened from the disk. Browsers do not start a worker from a file there, so
// the script of the worker runs in a hidden frame instead and exchanges the same messages.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    #queue = [];
    #scope;
    #started = false;

    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.#scope = frame.contentWindow;
      this.#scope.postMessage = (data) => {
        setTimeout(() => {
          const event = new MessageEvent("message", { data });
          this.dispatchEvent(event);
          this.onmessage?.(event);
        });
      };
      const script = frame.contentDocument.createElement("script");
      script.src = new URL(url, location.href).href;
      script.onload = () => {
        this.#started = true;
        this.#queue.splice(0).forEach((data) => this.postMessage(data));
      };
      frame.contentDocument.body.append(script);
    }

    postMessage(data) {
      if (!this.#started) {
        this.#queue.push(data);
        return;
      }
      const Message = this.#scope.MessageEvent;
      setTimeout(() => this.#scope.dispatchEvent(new Message("message", { data })));
    }

    terminate() {
      this.#scope.frameElement.remove();
    }
  };
}
